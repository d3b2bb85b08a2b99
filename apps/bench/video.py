"""Where the time of a video goes, cold and warm, and how near the machine's own peak that is.

Included: the clock from `stream()` to the last frame in the encoder. Not included: imports, loading weights.
Cold is the first stream of a freshly loaded pipeline, its kernel self-tests in it; warm is the next one, with
another prompt, so that its text is encoded too. The peak is measured before and after, in the same run.

Shapes: T frames, H height, W width.
"""

import io
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import streamgen as sg
from streamgen.attention.memory import Memory
from streamgen.frames import FORMATS, Clip, FrameWriter, open_writer
from streamgen.kv import KVCache, Stage
from streamgen.models.umt5 import TextEncoder
from streamgen.runtime.metrics import StreamMeter

from .gemm import gemm_peak
from .stopwatch import watching

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PROMPTS = ("a hero walks through snow", "a hero walks north")
# What the cache itself costs: slots, copies, writes of keys and values, eviction, renumbering.
CACHE = ((KVCache, "stage"), (KVCache, "reposition"), (Stage, "commit"), (Memory, "write"))
TEXT = ((TextEncoder, "__call__"),)  # when a stream is opened; a chunk's own timing has the rest
STAGES = ("text", "dit", "cache", "vae", "encode", "other")
INCLUDED = "clock from stream() to the last encoded frame; imports and loading of weights are not in it"


@dataclass(frozen=True)
class Run:
    """One stream, timed."""

    dtype: str
    state: str  # cold or warm
    frames: int
    wall_s: float
    first_chunk_s: float
    frames_per_s: float
    stages_s: dict[str, float]
    gflop_per_frame: float
    gflops: float
    gemm_gflops: float

    @property
    def of_peak(self) -> float:
        """Share of the measured GEMM peak that the whole stream reaches, waiting and encoding included."""
        return self.gflops / self.gemm_gflops


def run(
    json_output: bool = False,
    dtype: str = "both",
    model: str = "tiny-video",
    seconds: float = 4.0,
    attention: str = "auto",
) -> None:
    """Measure and print."""
    names = tuple(DTYPES) if dtype == "both" else (dtype,)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    runs = [entry for name in names for entry in measure(model, name, seconds, attention, device)]
    about = {
        "model": model,
        "attention": attention,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "streamgen": sg.__version__,
        "included": INCLUDED,
    }
    if json_output:
        print(
            json.dumps(
                {**about, "runs": [{**asdict(entry), "of_peak": entry.of_peak} for entry in runs]}, indent=2
            )
        )
    else:
        print("\n".join(table(about, runs)))


def measure(model: str, name: str, seconds: float, attention: str, device: str) -> Iterator[Run]:
    """A cold and a warm stream in one dtype, between two measurements of the peak."""
    dtype = DTYPES[name]
    before = gemm_peak(dtype, device)
    pipe = sg.VideoPipeline.from_pretrained(model, dtype=dtype, device=device, attention=attention)
    timed = [_stream(pipe, prompt, seconds) for prompt in PROMPTS]
    flop_per_frame = _flop_per_frame(pipe, seconds)
    peak = max(before, gemm_peak(dtype, device))
    for state, meter in zip(("cold", "warm"), timed, strict=True):
        stages = {**meter.stages, "other": meter.wall_s - sum(meter.stages.values())}
        yield Run(
            dtype=name,
            state=state,
            frames=meter.frames,
            wall_s=meter.wall_s,
            first_chunk_s=meter.first_chunk_s,
            frames_per_s=meter.frames / meter.wall_s,
            stages_s=stages,
            gflop_per_frame=flop_per_frame / 1e9,
            gflops=flop_per_frame * meter.frames / meter.wall_s / 1e9,
            gemm_gflops=peak / 1e9,
        )


@dataclass(frozen=True)
class Timed:
    """What a meter read when its stream ended."""

    frames: int
    wall_s: float
    first_chunk_s: float
    stages: dict[str, float]


def _stream(pipe: Any, prompt: str, seconds: float) -> Timed:
    fps = pipe.settings.fps
    meter = StreamMeter(fps, None)
    writer = None
    with watching(CACHE) as cache, watching(TEXT) as text:
        for chunk in pipe.stream(prompt, seconds=seconds, seed=0):
            began = time.perf_counter()
            writer = writer or _encoder(chunk, fps)
            writer.write(chunk.frames)
            encode, held = time.perf_counter() - began, cache.lap()
            timing = chunk.timing
            stages = {**timing, "text": timing["text"] + text.lap(), "dit": timing["dit"] - held}
            stages |= {"cache": held, "encode": encode}
            meter.add(len(chunk.frames), stages)
    assert writer is not None and meter.first_chunk is not None, "a stream of some seconds has a chunk"
    began = time.perf_counter()
    writer.close()
    meter.stages["encode"] += time.perf_counter() - began
    return Timed(meter.frames, meter.wall, meter.first_chunk, dict(meter.stages))


def _encoder(chunk: sg.Chunk, fps: float) -> FrameWriter:
    _, height, width, _ = chunk.frames.shape
    clip = Clip(width, height, Fraction(fps).limit_denominator(1001))
    return open_writer(io.BytesIO(), FORMATS["mp4"], clip)


def _flop_per_frame(pipe: Any, seconds: float) -> float:
    """Multiplications and additions a frame, counted over a stream of its own: counting costs time."""
    frames = 0
    with FlopCounterMode(display=False) as counter:
        for chunk in pipe.stream(PROMPTS[0], seconds=seconds, seed=0):
            frames += len(chunk.frames)
    return counter.get_total_flops() / frames


def table(about: dict[str, object], runs: list[Run]) -> list[str]:
    """Lines for people."""
    head = ["dtype", "state", "fps", "first chunk", *STAGES, "GFLOP/frame", "GFLOP/s", "of GEMM peak"]
    rows = [head, *(_cells(entry) for entry in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    where = "{model}, {attention} attention, {device}, {threads} threads, torch {torch}".format(**about)
    return [
        where,
        f"Included: {about['included']}.",
        "Stages are seconds of the whole stream.",
        "",
        *lines,
        *_ratio(runs),
    ]


def _cells(entry: Run) -> list[str]:
    stages = [f"{entry.stages_s.get(stage, 0.0):.3f}" for stage in STAGES]
    rates = [f"{entry.gflop_per_frame:.3f}", f"{entry.gflops:.1f}", f"{100 * entry.of_peak:.1f} %"]
    return [
        entry.dtype,
        entry.state,
        f"{entry.frames_per_s:.1f}",
        f"{entry.first_chunk_s:.3f} s",
        *stages,
        *rates,
    ]


def _ratio(runs: list[Run]) -> list[str]:
    warm = {entry.dtype: entry for entry in runs if entry.state == "warm"}
    if len(warm) < 2:
        return []
    ratio = warm["bf16"].frames_per_s / warm["fp32"].frames_per_s
    return ["", f"bf16 / fp32, warm, side by side in this run: {ratio:.2f}x the frames per second."]
