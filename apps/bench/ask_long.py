"""One memory for a long time: whether bytes, pages, tokens computed, or seconds grow with the stream.

Synthetic frames at the checkpoint's own rate, a question after every chunk. The stream is cut into ten
spans; what is told of a span are medians. Seconds are measured as in `ask`. A busy machine is slower at one
time than at another, so every third chunk is also watched by a stream that begins anew with each span.
"""

import json
import math
from dataclasses import asdict, dataclass
from statistics import linear_regression, median
from typing import Any

import numpy as np
import torch

import streamgen as sg
from streamgen.errors import UsageError
from streamgen.pipelines.videoqa_memory import named

from .ask import INCLUDED, Watcher, clock_of

SPANS, BESIDE = 10, 3


@dataclass(frozen=True)
class Span:
    """A tenth of the stream."""

    until_s: float  # of the video
    chunk_s: float
    first_token_s: float
    young_chunk_s: float  # the same, of the stream that began with the span
    young_first_token_s: float


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
            "chunk_growth": growth([span.chunk_s / span.young_chunk_s for span in self.spans]),
            "first_token_growth": growth(
                [span.first_token_s / span.young_first_token_s for span in self.spans]
            ),
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
    _refuse_short(chunks, budget // pipe.parts.vision.most_tokens(settings.chunk) + 2 + 3 * BESIDE, minutes)
    memory, clock, rng = named("hermes", budget), clock_of(pipe), np.random.default_rng(0)
    watcher, spans, seen = Watcher(pipe, memory, clock), [], []
    for part in range(SPANS):
        young, first = Watcher(pipe, memory, clock), len(watcher.chunks)
        for index in range(chunks * part // SPANS, chunks * (part + 1) // SPANS):
            times = [(index * settings.chunk + frame) / settings.fps for frame in range(settings.chunk)]
            frames = rng.integers(0, 256, (settings.chunk, 64, 64, 3), np.uint8)
            before = watcher.session.stats.prefilled
            watcher.step(frames, times, counts=_settled(watcher))
            if _settled(watcher):
                seen.append(_counts(watcher, before))
            if index % BESIDE == 0 or not _settled(young):
                young.step(frames, times, counts=_settled(young))
        until = (index + 1) * settings.chunk / settings.fps
        spans.append(_span(watcher, young, first, until))
        young.session.close()
    watcher.session.close()
    prefilled, pages, held, positions = zip(*seen, strict=True)
    return Result(
        str(pipe.parts.name), minutes, chunks * settings.chunk, chunks, budget, _range(prefilled),
        _range(pages), _range(held), max(positions), spans,
    )  # fmt: skip


def growth(values: list[float]) -> float:
    """By how much of their median the spans rise from the first to the last, along a straight line."""
    slope = linear_regression(range(len(values)), values).slope
    return slope * (len(values) - 1) / median(values)


def _refuse_short(chunks: int, needed: int, minutes: float) -> None:
    """Each span has to fill a budget, and then to go on for a while."""
    if chunks < needed * SPANS:
        raise UsageError(
            f"{minutes:g} minutes are {chunks} chunks; {SPANS} young streams of {needed} are measured beside "
            f"them. Give --minutes {math.ceil(minutes * needed * SPANS / chunks)} or more, or less --budget."
        )


def _settled(watcher: Watcher) -> bool:
    """The budget is full, and letting go was done before."""
    return watcher.session.stats.evictions > 1


def _counts(watcher: Watcher, before: int) -> tuple[int, int, int, int]:
    stats = watcher.session.stats
    return stats.prefilled - before, stats.pages - stats.pages_free, stats.bytes_held, stats.position


def _span(watcher: Watcher, young: Watcher, first: int, until: float) -> Span:
    return Span(
        until, median(watcher.chunks[first:]), median(watcher.firsts[first:]), median(young.chunks),
        median(young.firsts),
    )  # fmt: skip


def _range(numbers: tuple[int, ...]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _table(result: Result) -> str:
    """Markdown, as `docs/` keeps it."""
    record = result.record()
    lines = [
        f"{result.model}, {result.minutes:g} minutes: {result.frames} frames, {result.chunks} chunks and as "
        f"many questions, budget {result.budget}.\n",
        "| until | chunk ms | of a young stream | first token ms | of a young stream |",
        "|------:|---------:|------------------:|---------------:|------------------:|",
        *(
            f"| {span.until_s / 60:.0f} min | {span.chunk_s * 1e3:.1f} | {span.young_chunk_s * 1e3:.1f} | "
            f"{span.first_token_s * 1e3:.1f} | {span.young_first_token_s * 1e3:.1f} |"
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
        f"Beside a young stream a chunk grew by {record['chunk_growth'] * 100:+.1f} % in all and a first "
        f"token by {record['first_token_growth'] * 100:+.1f} %; the highest position was {result.positions}."
    )
    return "\n".join([*lines, f"Included: {INCLUDED}."])
