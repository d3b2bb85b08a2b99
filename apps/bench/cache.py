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
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from streamgen.attention import kernels
from streamgen.kv import Arena, Geometry, PagePool, SinkWindow

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
INCLUDED = "one chunk, all layers and passes: room, storing, attention, eviction; not the rest of a model"


@dataclass(frozen=True)
class Scale:
    """The made-up model: a frame of Wan 1.3B has 1,560 tokens; an eighth of that suits one core."""

    layers: int = 12
    heads: int = 12
    head_dim: int = 64
    frame: int = 195  # tokens
    window: int = 6  # frames
    sink: int = 1  # frames
    passes: int = 5  # four denoising steps and the clean one

    @property
    def kept(self) -> int:
        return (self.window + self.sink) * self.frame


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


class Cache(Protocol):
    """A cache under test: open a chunk, answer any number of passes, close it."""

    def open(self) -> None: ...

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...

    def close(self) -> None: ...

    def held(self) -> int: ...

    def spare(self) -> int: ...


Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q [1, T, H, D], k, v [1, n, H, D] -> [1, T, H, D]."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def skipped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """No attention, to see what the cache costs alone."""
    return q


class Ring:
    """Ours: staged in the dead slots of one stretch, read where it lies."""

    def __init__(self, scale: Scale, dtype: torch.dtype, attention: Attention) -> None:
        geometry = Geometry(scale.layers, scale.heads, scale.head_dim, scale.frame, dtype)
        undo = 1  # a frame that a discarded stage would put back
        self.pool = PagePool(Arena(), geometry, scale.window + scale.sink + undo)
        self.cache = self.pool.cache(
            SinkWindow(scale.window * scale.frame, scale.sink * scale.frame), reserve=scale.kept
        )
        self.scale, self.attention = scale, attention

    def open(self) -> None:
        self.stage = self.cache.stage(self.scale.frame)
        self.attends = kernels()["sdpa"].plan([self.stage], self.scale.heads)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.attention is skipped:
            self.attends[layer].store(k, v)
            return q
        return self.attends[layer](q, k, v)

    def close(self) -> None:
        self.stage.commit()

    def held(self) -> int:
        return _bytes([self.pool.k, self.pool.v])

    def spare(self) -> int:
        return 0


class Dense:
    """What the three others share: keys and values [2, 1, N, H, D] of each layer, allocated once."""

    def __init__(self, scale: Scale, dtype: torch.dtype, attention: Attention) -> None:
        shape = (2, 1, scale.kept, scale.heads, scale.head_dim)
        self.layers = [torch.zeros(shape, dtype=dtype) for _ in range(scale.layers)]
        self.scale, self.attention = scale, attention
        self.end = 0  # tokens that are kept

    def open(self) -> None:
        self.full = self.end == self.scale.kept

    def close(self) -> None:
        self.end = min(self.end + self.scale.frame, self.scale.kept)

    def held(self) -> int:
        return _bytes(self.layers)

    def spare(self) -> int:
        return _bytes(self.layers[:1])

    def look(self, q: Tensor, memory: Tensor) -> Tensor:
        return self.attention(q, memory[0], memory[1])

    def roll(self, memory: Tensor) -> None:
        """Shift the window left by a frame; the overlap forces a copy."""
        sink, frame = self.scale.sink * self.scale.frame, self.scale.frame
        memory[:, :, sink:-frame] = memory[:, :, sink + frame :].clone()


class RollByCopy(Dense):
    """As in Self-Forcing: the first pass of a chunk shifts the window, every pass writes the tail."""

    def open(self) -> None:
        super().open()
        self.rolled: set[int] = set()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory, frame = self.layers[layer], self.scale.frame
        if self.full and layer not in self.rolled:
            self.roll(memory)
            self.rolled.add(layer)
        start = self.end - frame if self.full else self.end
        memory[0, :, start : start + frame], memory[1, :, start : start + frame] = k, v
        return self.look(q, memory[:, :, : start + frame])


class CloneAndEdit(Dense):
    """As in LongLive: every pass edits a clone; the layer's own memory changes when the chunk is done."""

    def open(self) -> None:
        super().open()
        self.last: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory = self.layers[layer].clone()
        stop = self.edit(memory, k, v)
        self.last[layer] = k, v
        return self.look(q, memory[:, :, :stop])

    def edit(self, memory: Tensor, k: Tensor, v: Tensor) -> int:
        frame = self.scale.frame
        if self.full:
            self.roll(memory)
        start = self.end - frame if self.full else self.end
        memory[0, :, start : start + frame], memory[1, :, start : start + frame] = k, v
        return start + frame

    def close(self) -> None:
        for layer, (k, v) in self.last.items():
            self.edit(self.layers[layer], k, v)
        super().close()

    def spare(self) -> int:
        return 2 * super().spare()  # the clone, and the copy that shifts it


class Concatenate(Dense):
    """As in most text stacks: past and fresh keys are joined in every pass, then cut to the window."""

    def __init__(self, scale: Scale, dtype: torch.dtype, attention: Attention) -> None:
        super().__init__(scale, dtype, attention)
        self.layers = [memory[:, :, :0] for memory in self.layers]

    def open(self) -> None:
        super().open()
        self.joined = list(self.layers)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory, sink, frame = self.layers[layer], self.scale.sink * self.scale.frame, self.scale.frame
        past = [memory[:, :, :sink], memory[:, :, sink + frame :]] if self.full else [memory]
        joined = torch.cat([*past, torch.stack([k, v])], dim=2)
        self.joined[layer] = joined
        return self.look(q, joined)

    def close(self) -> None:
        self.layers = self.joined
        super().close()

    def spare(self) -> int:
        return _bytes(self.layers)  # the joined memories of all layers live until the chunk is done


CACHES: dict[str, Callable[[Scale, torch.dtype, Attention], Cache]] = {
    "ring": Ring,
    "roll by copy": RollByCopy,
    "concatenate": Concatenate,
    "clone and edit": CloneAndEdit,
}


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


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


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
