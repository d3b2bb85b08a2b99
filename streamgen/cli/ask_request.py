"""What `streamgen ask` was asked, checked and settled before anything heavy is imported."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamgen.cli import backend
from streamgen.cli.ask_times import Asking, clock, parse_time, schedule
from streamgen.cli.request import parse_device, parse_dtype
from streamgen.cli.streams import standard_input
from streamgen.cli.words import utf8
from streamgen.errors import UsageError

if TYPE_CHECKING:
    from streamgen.pipelines.videoqa_settings import VideoQASettings

PIPE = "-"
MEMORIES = ("hermes", "window", "uniform", "full")


@dataclass(frozen=True)
class AskAsked:
    """The command line as it was typed."""

    words: tuple[str, ...]
    source: str | None
    at: tuple[str, ...]
    fps: float | None
    start: str | None
    end: str | None
    skip_damage: bool
    timeout: float
    model: str
    memory: str
    budget: int | None
    steer: bool
    most: int | None
    attention: str
    dtype: str | None
    device: str | None
    jsonl: bool
    stats: str | None
    quiet: bool


@dataclass(frozen=True)
class AskWish:
    """Questions that can be asked, as far as that is known without the video and the model."""

    asked: AskAsked
    source: str
    plan: tuple[Asking, ...]
    typed: bool  # further questions come on standard input
    start: float | None
    end: float | None
    folder: Path
    settings: "VideoQASettings"
    fps: float
    budget: int | None  # None: as much as the model has positions for
    dtype: str | None
    device: str | None


def settle(asked: AskAsked) -> AskWish:
    """Check everything that can be checked without the video and the model, cheapest first."""
    source, questions, typed = _words(asked)
    times = [parse_time(text) for text in asked.at]
    if times and not questions:
        raise UsageError("--at says when a question is asked, and there is none; give it in words.")
    start, end = (
        None if text is None else parse_time(text, name)
        for text, name in ((asked.start, "--start"), (asked.end, "--end"))
    )
    _check_span(times, start, end)
    _check_numbers(asked)
    _check_stats(asked.stats)
    dtype, device = parse_dtype(asked.dtype), parse_device(asked.device)
    folder = backend.folder_of(asked.model)
    settings = _settings(folder)
    budget = settings.budget if asked.budget is None and asked.memory != "full" else asked.budget
    return AskWish(
        asked=asked,
        source=source,
        plan=schedule(questions, times),
        typed=typed,
        start=start,
        end=end,
        folder=folder,
        settings=settings,
        fps=settings.fps if asked.fps is None else asked.fps,
        budget=budget,
        dtype=dtype,
        device=device,
    )


def _words(asked: AskAsked) -> tuple[str, list[str], bool]:
    """The source, the questions in words, and whether more come on standard input."""
    words = list(asked.words)
    if asked.source is None and not words:
        raise UsageError(
            "A video is missing; give a file, a URL, cam:0, or - for a pipe, and then the questions."
        )
    source = words.pop(0) if asked.source is None else asked.source
    typed = not words or PIPE in words
    questions = [" ".join(utf8(word, "A question").split()) for word in words if word != PIPE]
    if not all(questions):
        raise UsageError("A question is empty; say what you want to know.")
    if source == PIPE and typed:
        raise UsageError("Standard input carries the video, so questions have to be given in words.")
    if source == PIPE or typed:
        standard_input()
    return source, questions, typed


def _check_span(times: list[float], start: float | None, end: float | None) -> None:
    for at in times:
        if start is not None and at < start:
            raise UsageError(f"--at {clock(at)} is before --start {clock(start)}; nothing was seen then.")
        if end is not None and at > end:
            raise UsageError(f"--at {clock(at)} is after --end {clock(end)}; watching has ended then.")


def _check_numbers(asked: AskAsked) -> None:
    if asked.memory not in MEMORIES:
        raise UsageError(f"There is no memory {asked.memory!r}; choose one of {', '.join(MEMORIES)}.")
    for name, value in (("--budget", asked.budget), ("--most", asked.most)):
        if value is not None and value < 1:
            raise UsageError(f"{name} {value} is too few tokens; give 1 or more.")


def _check_stats(stats: str | None) -> None:
    if stats is None:
        return
    path = Path(stats)
    if (
        path.is_dir()
        or not path.parent.is_dir()
        or not os.access(path if path.exists() else path.parent, os.W_OK)
    ):
        raise UsageError(
            f"The statistics file {path} cannot be written; name a file in a folder that is there."
        )


def _settings(folder: Path) -> "VideoQASettings":
    from streamgen.pipelines.videoqa_settings import VideoQASettings

    return VideoQASettings.load(folder)
