"""Memories of a watched video side by side in one run, chunk by chunk in turns, on one stream.

Included: seconds inside the session; of a chunk: eyes, language model, letting go; of an answer: its fork,
its question and its first token. Not included: loading, reading the video, the first chunk. On a CPU they are
CPU seconds of this process. The rival computes its window anew with every chunk (its pictures are not looked
at again), which is what a server without a memory does that is sent the last frames every time.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch

import streamgen as sg
from streamgen.pipelines.videoqa_memory import NAMES, Full, Memory, named

from .ask_model import SIZES, pipeline

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
QUESTION = (  # with choices, as the benchmarks of streaming video ask
    "which of the places that were seen came before the one that is seen now "
    "(A) meadow (B) desert (C) snow (D) lava"
)
RIVAL = "window, anew"
INCLUDED = (
    "seconds inside the session (CPU seconds on a CPU): a chunk is eyes, language model and letting go, a "
    "first token is fork, question and token; loading, reading video and the first chunk are not in it"
)


@dataclass(frozen=True)
class Row:
    """One memory; seconds are medians, over the first and the last third of the chunks."""

    memory: str
    chunk_early_s: float
    chunk_s: float
    first_token_early_s: float | None
    first_token_s: float | None  # None: the rival is not asked
    tokens: int  # remembered by the longest layer
    bytes_held: int
    bytes_reserved: int
    frames_looked_at: int


@dataclass(frozen=True)
class Shape:
    """The language model, and the question that is put to it."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    weights: int  # of the language model
    question_tokens: int

    @classmethod
    def of(cls, pipe: sg.VideoQAPipeline) -> "Shape":
        vlm, parts = pipe.parts.vlm, pipe.parts
        asked = parts.encode(parts.settings.question.replace("{question}", QUESTION))
        weights = sum(weight.numel() for weight in vlm.text.parameters())
        width = vlm.text.config.hidden_size
        return cls(vlm.layers, width, vlm.heads, vlm.kv_heads, weights, len(asked))


@dataclass(frozen=True)
class Result:
    """What was measured, and on what."""

    model: str
    dtype: str
    shape: Shape
    chunk_tokens: int
    budget: int
    chunks: int
    rows: list[Row]

    def row(self, memory: str) -> Row:
        return next(row for row in self.rows if row.memory == memory)

    def record(self) -> dict[str, Any]:
        hermes = self.row("hermes")
        return {
            **asdict(self),
            "chunk_against_window_anew": self.row(RIVAL).chunk_s / hermes.chunk_s,
            "first_token_against_full": (self.row("full").first_token_s or 0) / (hermes.first_token_s or 1),
            "first_token_growth": (hermes.first_token_s or 0) / (hermes.first_token_early_s or 1),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "included": INCLUDED,
        }


def run(
    json_output: bool = False,
    model: str | None = None,
    size: str = "mid",
    dtype: str = "fp32",
    budget: int | None = None,
    beyond: int = 20,
    attention: str = "auto",
) -> None:
    """Measure and print."""
    results = [
        measure(
            _loaded(model, size, name, budget, attention), model or f"random {size}", name, budget, beyond
        )
        for name in (DTYPES if dtype == "both" else (dtype,))
    ]
    if json_output:
        print(json.dumps([result.record() for result in results], indent=2))
        return
    for result in results:
        print(_table(result))
    print(f"Included: {INCLUDED}.")


def measure(pipe: sg.VideoQAPipeline, model: str, dtype: str, budget: int | None, beyond: int) -> Result:
    """Watch until `beyond` chunks more than fit the budget have come, and ask after each."""
    settings = pipe.parts.settings
    budget = budget or settings.budget
    each = pipe.parts.vision.most_tokens(settings.chunk)
    chunks = -(-budget // each) + beyond
    clock = clock_of(pipe)
    watchers = {name: Watcher(pipe, named(name, None if name == "full" else budget), clock) for name in NAMES}
    rival = Rival(pipe, max(1, budget // each), clock)
    for index, (frames, times) in enumerate(_stream(settings.chunk, settings.fps, chunks)):
        for watcher in watchers.values():
            watcher.step(frames, times, counts=index > 0)
        rival.step(frames, times, counts=index > 0)
    rows = [watcher.row(name) for name, watcher in watchers.items()]
    return Result(model, dtype, Shape.of(pipe), each, budget, chunks, [*rows, rival.row()])


class Watcher:
    """One session, with the seconds of its chunks and of its first tokens."""

    def __init__(self, pipe: sg.VideoQAPipeline, memory: Memory, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.session = pipe.open(memory=memory)
        self.chunks: list[float] = []
        self.firsts: list[float] = []

    def step(self, frames: np.ndarray, times: list[float], counts: bool) -> None:
        """A chunk of frames, and a question."""
        began = self._clock()
        for frame, seconds in zip(frames, times, strict=True):
            self.session.push(frame, seconds)
        self.session.flush()
        watched = self._clock()
        deque(self.session.ask(QUESTION, most=1), maxlen=0)
        if counts:
            self.chunks.append(watched - began)
            self.firsts.append(self._clock() - watched)

    def row(self, name: str) -> Row:
        stats = self.session.stats
        self.session.close()
        return Row(
            name, early(self.chunks), late(self.chunks), early(self.firsts), late(self.firsts),
            max(stats.tokens), stats.bytes_held, stats.bytes_reserved, stats.looked,
        )  # fmt: skip


class Rival:
    """The last chunks computed anew with every one that comes; what was looked at is kept."""

    def __init__(self, pipe: sg.VideoQAPipeline, window: int, clock: Callable[[], float]) -> None:
        parts = replace(pipe.parts, vision=Remembering(pipe.parts.vision))
        self._pipe, self._window, self._clock = sg.VideoQAPipeline(parts, Full()), window, clock
        self._last: list[tuple[np.ndarray, list[float]]] = []
        self._chunks: list[float] = []
        self._row: Row | None = None

    def step(self, frames: np.ndarray, times: list[float], counts: bool) -> None:
        """The window, up to this chunk, in a new session."""
        self._last = [*self._last, (frames, times)][-self._window :]
        room = self._window * self._pipe.parts.vision.most_tokens(len(frames))
        began = self._clock()
        with self._pipe.open(memory=Full(room)) as session:
            for pictures, seconds in self._last:
                for picture, second in zip(pictures, seconds, strict=True):
                    session.push(picture, second)
                session.flush()
            if counts:
                self._chunks.append(self._clock() - began)
            stats = session.stats
        self._row = Row(
            RIVAL, early(self._chunks) if counts else 0.0, late(self._chunks) if counts else 0.0, None, None,
            max(stats.tokens), stats.bytes_held, stats.bytes_reserved, stats.looked,
        )  # fmt: skip

    def row(self) -> Row:
        assert self._row is not None, "at least one chunk was watched"
        return self._row


class Remembering:
    """Eyes that look at each chunk once."""

    def __init__(self, vision: Any) -> None:
        self._vision = vision
        self._seen: dict[tuple[float, ...], Any] = {}
        self.most_tokens = vision.most_tokens

    def look(self, frames: np.ndarray, times: Any) -> Any:
        key = tuple(times)
        if key not in self._seen:
            self._seen[key] = self._vision.look(frames, times)
        return self._seen[key]


def early(seconds: list[float]) -> float:
    """The median of the first third."""
    return median(seconds[: max(1, len(seconds) // 3)])


def late(seconds: list[float]) -> float:
    """The median of the last third."""
    return median(seconds[-max(1, len(seconds) // 3) :])


def clock_of(pipe: sg.VideoQAPipeline) -> Callable[[], float]:
    """CPU seconds of this process, or on a GPU the time when it has done its work."""
    return time.process_time if pipe.parts.vlm.device.type == "cpu" else _synchronised


def _synchronised() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def _stream(chunk: int, fps: float, chunks: int) -> Iterator[tuple[np.ndarray, list[float]]]:
    """Chunks of noise, uint8 [F, 64, 64, 3], and their times."""
    random = np.random.default_rng(0)
    for index in range(chunks):
        times = [(index * chunk + frame) / fps for frame in range(chunk)]
        yield random.integers(0, 256, (chunk, 64, 64, 3), np.uint8), times


def _loaded(
    model: str | None, size: str, dtype: str, budget: int | None, attention: str
) -> sg.VideoQAPipeline:
    if model is not None:
        return sg.VideoQAPipeline.from_pretrained(model, dtype=DTYPES[dtype], attention=attention)
    chosen = SIZES[size]
    return pipeline(chosen, named("hermes", budget or chosen.budget), DTYPES[dtype], attention)


def _table(result: Result) -> str:
    shape = result.shape
    lines = [
        f"{result.model}, {result.dtype}: {shape.layers} layers {shape.width} wide, {shape.heads} heads on "
        f"{shape.kv_heads}, {shape.weights / 1e6:.1f} M weights. {result.chunks} chunks of "
        f"{result.chunk_tokens} tokens, budget {result.budget}, a question of {shape.question_tokens}.",
        f"{'memory':<14}{'chunk ms':>18}{'first token ms':>18}{'tokens':>8}{'KiB held':>10}{'frames':>8}",
    ]
    for row in result.rows:
        chunk = f"{row.chunk_early_s * 1e3:.1f} -> {row.chunk_s * 1e3:.1f}"
        first = "-"
        if row.first_token_s is not None and row.first_token_early_s is not None:
            first = f"{row.first_token_early_s * 1e3:.1f} -> {row.first_token_s * 1e3:.1f}"
        held = row.bytes_held / 1024
        lines.append(
            f"{row.memory:<14}{chunk:>18}{first:>18}{row.tokens:>8}{held:>10.0f}{row.frames_looked_at:>8}"
        )
    record = result.record()
    lines.append(
        f"A hermes chunk is {record['chunk_against_window_anew']:.2f} times as fast as the window anew, "
        f"its first token {record['first_token_against_full']:.2f} times as fast as that of full and "
        f"{record['first_token_growth']:.2f} times what it took early.\n"
    )
    return "\n".join(lines)
