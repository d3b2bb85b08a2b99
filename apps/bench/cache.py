"""The ring beside the caches it replaces: rolling by copy, concatenation, clone-and-edit.

All four remember a sink and a window of frames for the same made-up model, answer the same queries through
the same kernel (torch's scaled_dot_product_attention), and take turns, chunk by chunk, in one run.
Included: one chunk of one frame, once the window is full, with every pass of every layer: making room,
storing keys and values, attention, letting old frames go. Not included: the rest of a model, drawing numbers.

Shapes: L layers, T tokens of a frame, N tokens of sink and window, H heads, D head dim.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import torch
from torch import Tensor

from .rivals import CACHES, Attention, Cache, Scale, sdpa, skipped

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
INCLUDED = "one chunk, all layers and passes: room, storing, attention, eviction; not the rest of a model"


@dataclass(frozen=True)
class Result:
    """One cache in one dtype; milliseconds are medians over the timed chunks."""

    dtype: str
    cache: str
    chunk_ms: float
    cache_ms: float  # the same chunk without attention
    ratio: float  # chunk_ms over the ring's
    held_mib: float  # between chunks, with what is set aside for the next
    peak_mib: float  # held, and the largest copy alive at once


def run(
    json_output: bool = False, dtype: str = "both", scale: Scale | None = None, chunks: int = 5
) -> dict[str, object]:
    """Measure and print."""
    scale = scale or Scale()
    names = tuple(DTYPES) if dtype == "both" else (dtype,)
    results = [result for name in names for result in measure(name, scale, chunks)]
    about: dict[str, object] = {
        "included": INCLUDED,
        "kernel": "sdpa",
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "clock": clock().__name__,
        "torch": torch.__version__,
        "chunks": chunks,
        "model": {**asdict(scale), "kept_tokens": scale.kept},
        "results": [asdict(result) for result in results],
    }
    print(json.dumps(about, indent=2) if json_output else "\n".join(table(about, results)))
    return about


def measure(dtype: str, scale: Scale, chunks: int) -> list[Result]:
    """All caches in one dtype, taking turns: with attention, and without it."""
    whole = timed(dtype, scale, chunks, sdpa)
    alone = timed(dtype, scale, chunks, skipped)
    results = []
    for name, (cache, seconds) in whole.items():
        held = cache.held()
        results.append(
            Result(
                dtype=dtype,
                cache=name,
                chunk_ms=1e3 * seconds,
                cache_ms=1e3 * alone[name][1],
                ratio=seconds / whole["ring"][1],
                held_mib=held / 2**20,
                peak_mib=(held + cache.spare()) / 2**20,
            )
        )
    return results


@torch.inference_mode()
def timed(dtype: str, scale: Scale, chunks: int, attention: Attention) -> dict[str, tuple[Cache, float]]:
    """Each cache and the median seconds of its chunks, after the window is full and has moved once."""
    caches = {name: kind(scale, DTYPES[dtype], attention) for name, kind in CACHES.items()}
    generator = torch.Generator().manual_seed(0)
    seconds: dict[str, list[float]] = {name: [] for name in caches}
    warm, now = scale.window + scale.sink + 1, clock()
    for number in range(warm + chunks):
        shape = (3, 1, scale.frame, scale.heads, scale.head_dim)
        q, k, v = torch.randn(shape, generator=generator).to(DTYPES[dtype])
        answers = []
        for name, cache in caches.items():
            began = now()
            answers.append(_chunk(cache, scale, q, k, v, passes=scale.passes if number >= warm - 1 else 1))
            if number >= warm:
                seconds[name].append(now() - began)
        _refuse_disagreement(answers)
    return {name: (cache, median(seconds[name])) for name, cache in caches.items()}


def clock() -> Callable[[], float]:
    """Processor time with one thread, which a busy machine does not stretch; else the clock on the wall."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def _chunk(cache: Cache, scale: Scale, q: Tensor, k: Tensor, v: Tensor, passes: int) -> Tensor:
    cache.open()
    for _ in range(passes):
        for layer in range(scale.layers):
            out = cache.attend(layer, q, k, v)
    cache.close()
    return out


def _refuse_disagreement(answers: Sequence[Tensor]) -> None:
    """A cache that answers otherwise is not an alternative."""
    exact = 1e-5 if answers[0].dtype == torch.float32 else 2e-2
    for answer in answers[1:]:
        torch.testing.assert_close(answer, answers[0], atol=exact, rtol=exact)


def table(about: dict[str, object], results: Sequence[Result]) -> list[str]:
    """Lines for people."""
    lines = [
        f"Included: {about['included']}.",
        f"Model: {about['model']}, {about['threads']} thread(s), {about['clock']}.",
    ]
    head = ("dtype", "cache", "chunk ms", "x ring", "cache alone ms", "held MiB", "peak MiB")
    lines.append(f"{head[0]:6}{head[1]:16}" + "".join(f"{name:>16}" for name in head[2:]))
    for one in results:
        numbers = (one.chunk_ms, one.ratio, one.cache_ms, one.held_mib, one.peak_mib)
        lines.append(f"{one.dtype:6}{one.cache:16}" + "".join(f"{number:16.2f}" for number in numbers))
    return lines


if __name__ == "__main__":
    run()
