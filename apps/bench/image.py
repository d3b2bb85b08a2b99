"""A picture beside a straightforward implementation of the published code, in one run, in turns.

Included: CPU seconds from the label to the pixels, VQ-VAE decoding in it. Not included: loading, casting
weights once, the first round. The weights are random at the sizes of VAR-d16, so nothing is downloaded.
The floor is the time of the same matrix products and convolutions alone (see image_floor).
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import median

import torch

import streamgen as sg
from streamgen.models.var import VAR, VarConfig
from streamgen.models.var_loading import cast_products
from streamgen.models.vqvae import VQVAE, VqConfig
from streamgen.models.vqvae_layers import Ladder
from streamgen.models.vqvae_loading import prepare
from streamgen.pipelines.image import ImagePipeline, Preview

from .image_floor import record
from .image_plain import PlainVar

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
LABEL, CFG, TOP_K = 207, 4.0, 900
SIZES = {
    "d16": VarConfig(16, 1024, 16, 4096, 1000, (1, 2, 3, 4, 5, 6, 8, 10, 13, 16), 4096, 32, False, True),
    "tiny": VarConfig(2, 64, 2, 128, 10, (1, 2, 4), 64, 16, False, True),
}
LADDERS = {
    "d16": Ladder(3, 32, 160, (1, 1, 2, 2, 4), 2, True, True),
    "tiny": Ladder(3, 16, 32, (1, 1, 1), 1, True, True),
}
INCLUDED = "CPU seconds from the label to the pixels; loading, casting and the first round are not in it"


@dataclass(frozen=True)
class Result:
    """One dtype; seconds are medians of CPU time over the rounds, all taken in turns."""

    dtype: str
    streamgen_s: float
    plain_s: float
    floor_s: float
    floor_parts_s: dict[str, float]
    first_preview_s: float
    first_full_preview_s: float
    scales_s: list[float]
    decode_s: float
    cache_mib: float
    agreement: float  # share of tokens that are those of fp32 where each scale begins alike

    @property
    def of_plain(self) -> float:
        return self.streamgen_s / self.plain_s

    @property
    def of_floor(self) -> float:
        return self.streamgen_s / self.floor_s

    @property
    def first_share(self) -> float:
        return self.first_preview_s / self.streamgen_s


def run(json_output: bool = False, dtype: str = "both", size: str = "d16", rounds: int = 3) -> None:
    """Measure and print."""
    var, vae = models(size)
    truth = ImagePipeline(var, vae)
    results = []
    for name in DTYPES if dtype == "both" else (dtype,):
        results.append(measure(truth, name, rounds))
    about = {
        "model": f"VAR-{size}, random weights, one guided picture of {truth.size[0]}x{truth.size[1]}",
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "streamgen": sg.__version__,
        "rounds": rounds,
        "included": INCLUDED,
    }
    if json_output:
        ratios = [
            {"of_plain": r.of_plain, "of_floor": r.of_floor, "first_share": r.first_share} for r in results
        ]
        rows = [{**asdict(r), **ratio} for r, ratio in zip(results, ratios, strict=True)]
        print(json.dumps({**about, "results": rows}, indent=2))
    else:
        print("\n".join(table(about, results)))


def models(size: str) -> tuple[VAR, VQVAE]:
    """Random weights of unit gain: the speed is that of trained ones."""
    torch.manual_seed(0)
    config = SIZES[size]
    with torch.device("meta"):
        var, vae = VAR(config), VQVAE(VqConfig(config.vocabulary, LADDERS[size], 4, "stretches", 3))
    for model in (var.to_empty(device="cpu"), vae.to_empty(device="cpu")):
        for name, parameter in model.named_parameters():
            gain = "norm" in name and name.endswith("weight")
            spread = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.05
            parameter.requires_grad_(False).normal_(float(gain), spread)
    prepare(vae, torch.float32)
    return var.eval(), vae.eval()


def measure(truth: ImagePipeline, name: str, rounds: int) -> Result:
    """streamgen, the straightforward code and the floor, in turns; the first round is warm-up."""
    pipe, plain = cast(truth, DTYPES[name]), PlainVar(truth.model, truth.vae)
    products = record(pipe, lambda: finish(pipe))
    runs: list[tuple[Lap, float, dict[str, float]]] = []
    for seed in range(rounds + 1):
        lap = Lap.of(pipe, seed)
        spent = cpu_seconds(lambda seed=seed: published(plain, name, seed))  # type: ignore[misc]
        runs.append((lap, spent, products.seconds()))
    runs = runs[1:]
    floors = {kind: median(r[2][kind] for r in runs) for kind in products.kinds}
    return Result(
        dtype=name,
        streamgen_s=median(r[0].total for r in runs),
        plain_s=median(r[1] for r in runs),
        floor_s=sum(floors.values()),
        floor_parts_s=floors,
        first_preview_s=median(first_preview(pipe, full=False) for _ in range(rounds)),
        first_full_preview_s=median(first_preview(pipe, full=True) for _ in range(rounds)),
        scales_s=[median(times) for times in zip(*[r[0].scales for r in runs], strict=True)],
        decode_s=median(r[0].decode for r in runs),
        cache_mib=pipe.memory_bytes(1)["stored"] / 2**20,
        agreement=agreement(truth, pipe),
    )


def cast(truth: ImagePipeline, dtype: torch.dtype) -> ImagePipeline:
    """The same models in another dtype, cast once."""
    if dtype == torch.float32:
        return truth
    with torch.device("meta"):
        var, vae = VAR(truth.model.config), VQVAE(truth.vae.config)
    var.load_state_dict({n: t.clone() for n, t in truth.model.state_dict().items()}, assign=True)
    vae.load_state_dict({n: t.clone() for n, t in truth.vae.state_dict().items()}, assign=True)
    cast_products(var, dtype)
    prepare(vae, dtype)
    return ImagePipeline(var.requires_grad_(False), vae.requires_grad_(False), truth.settings)


@dataclass(frozen=True)
class Lap:
    """CPU seconds of one picture: each scale, and decoding."""

    scales: list[float]
    decode: float

    @property
    def total(self) -> float:
        return sum(self.scales) + self.decode

    @classmethod
    def of(cls, pipe: ImagePipeline, seed: int) -> "Lap":
        scales, began = [], time.process_time()
        previews = []
        for preview in stream(pipe, seed):
            previews.append(preview)
            scales.append(time.process_time() - began)
            began = time.process_time()
        return cls(scales, cpu_seconds(lambda: previews[-1].images))


def stream(pipe: ImagePipeline, seed: int) -> Iterator[Preview]:
    return pipe.stream(LABEL % pipe.model.config.classes, seeds=seed, cfg=CFG, top_k=top_k(pipe), top_p=0.0)


def top_k(pipe: ImagePipeline) -> int:
    return min(TOP_K, pipe.model.config.vocabulary)


def finish(pipe: ImagePipeline) -> None:
    *_, done = stream(pipe, 0)
    _ = done.images


def published(plain: PlainVar, name: str, seed: int) -> None:
    """The published way to bf16 is autocast."""
    label = LABEL % plain.model.config.classes
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "bf16"):
        plain.generate([label], CFG, min(TOP_K, plain.model.config.vocabulary), seed)


def first_preview(pipe: ImagePipeline, full: bool) -> float:
    """From the label to the first pixels."""

    def make() -> None:
        preview = next(stream(pipe, 0))
        _ = preview.images if full else preview.thumbnails

    return cpu_seconds(make)


def cpu_seconds(make: Callable[[], object]) -> float:
    began = time.process_time()
    make()
    return time.process_time() - began


def agreement(truth: ImagePipeline, pipe: ImagePipeline) -> float:
    """Share of equal greedy tokens, up to and including the first scale that differs."""
    if pipe is truth:
        return 1.0
    same, seen = 0, 0
    pairs = zip(*[p.stream(0, cfg=CFG, top_k=1, top_p=0.0) for p in (truth, pipe)], strict=True)
    for ours, theirs in pairs:
        equal = ours.tokens == theirs.tokens
        same, seen = same + int(equal.sum()), seen + equal.numel()
        if not bool(equal.all()):
            break
    return same / seen


def table(about: dict[str, object], results: list[Result]) -> list[str]:
    """Lines for people."""
    lines = [
        "{model}, {device}, {threads} threads, torch {torch}".format(**about),
        f"Included: {about['included']}.",
        "",
    ]
    for r in results:
        parts = ", ".join(f"{kind} {seconds:.2f}" for kind, seconds in r.floor_parts_s.items())
        scales = " ".join(f"{seconds:.2f}" for seconds in r.scales_s)
        lines += [
            f"{r.dtype}: {r.streamgen_s:.2f} s, {r.of_plain:.2f} of the straightforward {r.plain_s:.2f} s, "
            f"{r.of_floor:.2f} of the floor {r.floor_s:.2f} s ({parts})",
            f"  first preview {r.first_preview_s:.2f} s ({r.first_share:.0%} of the whole), "
            f"at full size {r.first_full_preview_s:.2f} s",
            f"  scales {scales}; decoding {r.decode_s:.2f}; keys and values {r.cache_mib:.1f} MiB",
            f"  {r.agreement:.1%} of the greedy tokens are those of fp32, to the first scale that differs",
        ]
    return lines
