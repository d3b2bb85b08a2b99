"""One memory for a long time: whether bytes, pages, tokens computed, or seconds grow with the stream.

Synthetic frames at the checkpoint's own rate, a question after every chunk. The stream is cut into ten
spans; what is told of a span are medians. Seconds are measured as in `ask`.
"""

import json
from dataclasses import asdict, dataclass
from statistics import linear_regression, median
from typing import Any

import numpy as np
import torch

import streamgen as sg
from streamgen.pipelines.videoqa_memory import named

from .ask import INCLUDED, Watcher, clock_of

SPANS = 10


@dataclass(frozen=True)
class Span:
    """A tenth of the stream."""

    until_s: float  # of the video
    chunk_s: float
    first_token_s: float


@dataclass(frozen=True)
class Result:
    """What was measured once the budget was full; a number of tokens, pages or bytes is (least, most)."""

    model: str
    minutes: float
    frames: int
    chunks: int
    budget: int
    prefilled: tuple[int, int]  # tokens of a chunk
    pages: tuple[int, int]
    bytes_held: tuple[int, int]
    positions: int  # the highest that was ever used
    spans: list[Span]

    def record(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "chunk_growth": growth([span.chunk_s for span in self.spans]),
            "first_token_growth": growth([span.first_token_s for span in self.spans]),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "included": INCLUDED,
        }


def run(json_output: bool, model: str, minutes: float, budget: int | None, attention: str) -> None:
    """Measure and print."""
    pipe = sg.VideoQAPipeline.from_pretrained(model, attention=attention)
    result = measure(pipe, minutes, budget or pipe.parts.settings.budget)
    print(json.dumps(result.record(), indent=2) if json_output else _table(result))


def measure(pipe: sg.VideoQAPipeline, minutes: float, budget: int) -> Result:
    """Watch so long through HERMES, and ask after each chunk."""
    settings = pipe.parts.settings
    chunks = round(minutes * 60 * settings.fps / settings.chunk)
    watcher = Watcher(pipe, named("hermes", budget), clock_of(pipe))
    seen = []
    rng = np.random.default_rng(0)
    for index in range(chunks):
        times = [(index * settings.chunk + frame) / settings.fps for frame in range(settings.chunk)]
        before = watcher.session.stats.prefilled
        watcher.step(rng.integers(0, 256, (settings.chunk, 64, 64, 3), np.uint8), times, counts=True)
        stats = watcher.session.stats
        if stats.evictions > 1:
            pages = stats.pages - stats.pages_free
            seen.append((stats.prefilled - before, pages, stats.bytes_held, stats.position))
    watcher.session.close()
    prefilled, pages, held, positions = zip(*seen, strict=True)
    return Result(
        str(pipe.parts.name), minutes, chunks * settings.chunk, chunks, budget, _range(prefilled),
        _range(pages), _range(held), max(positions),
        _spans(watcher, len(seen), settings.chunk / settings.fps),
    )  # fmt: skip


def growth(seconds: list[float]) -> float:
    """By how much of their median the spans rise from the first to the last, along a straight line."""
    slope = linear_regression(range(len(seconds)), seconds).slope
    return slope * (len(seconds) - 1) / median(seconds)


def _spans(watcher: Watcher, count: int, chunk: float) -> list[Span]:
    """The last `count` chunks, each of `chunk` seconds of video, in ten parts."""
    first = len(watcher.chunks) - count
    edges = [first + count * part // SPANS for part in range(SPANS + 1)]
    return [
        Span(stop * chunk, median(watcher.chunks[start:stop]), median(watcher.firsts[start:stop]))
        for start, stop in zip(edges, edges[1:], strict=False)
    ]


def _range(numbers: tuple[int, ...]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _table(result: Result) -> str:
    """Markdown, as `docs/` keeps it."""
    record = result.record()
    lines = [
        f"{result.model}, {result.minutes:g} minutes: {result.frames} frames, {result.chunks} chunks and as "
        f"many questions, budget {result.budget}.\n",
        "| until | chunk ms | first token ms |",
        "|------:|---------:|---------------:|",
        *(
            f"| {span.until_s / 60:.1f} min | {span.chunk_s * 1e3:.1f} | {span.first_token_s * 1e3:.1f} |"
            for span in result.spans
        ),
        "",
    ]
    for name, (least, most) in (
        ("tokens computed for a chunk", result.prefilled),
        ("pages in use", result.pages),
        ("bytes held", result.bytes_held),
    ):
        lines.append(f"{name}: {least} to {most}")
    lines.append(
        f"Over the whole time a chunk grew by {record['chunk_growth'] * 100:+.1f} % and a first token by "
        f"{record['first_token_growth'] * 100:+.1f} %; no position above {result.positions} was used."
    )
    return "\n".join([*lines, f"Included: {INCLUDED}."])
