"""Prompts from words, a pipe or a file, and the times at which they change."""

import math
import re

from streamgen.cli.words import read_words, refuse_blank, utf8
from streamgen.errors import UsageError

_AT = re.compile(r"(?P<seconds>\d+(?:\.\d+)?)s?:(?P<text>.+)", re.DOTALL)


def read_prompt(asked: str | None) -> str:
    """The prompt itself, on one line: words as given, `-` for standard input, `@FILE` for a file."""
    if asked is None:
        raise UsageError("A prompt is missing; give it in quotes, as - to read standard input, or as @FILE.")
    words = read_words(asked)
    refuse_blank(words, asked)
    return " ".join(words.split())


def read_schedule(asked: list[str], seconds: float | None) -> dict[float, str]:
    """`5s:"words"` -> {5.0: "words"}, in the order of time; `seconds` is the length, None for endless."""
    schedule: dict[float, str] = {}
    for entry in asked:
        at, text = _entry(entry)
        if at in schedule:
            raise UsageError(f"--prompt-at names {at:g}s twice; one prompt can start at a time.")
        if seconds is not None and at >= seconds:
            raise UsageError(f"--prompt-at {at:g}s is past the end of a video of {seconds:g} s.")
        schedule[at] = text
    return dict(sorted(schedule.items()))


def _entry(entry: str) -> tuple[float, str]:
    match = _AT.fullmatch(utf8(entry, "The prompt of --prompt-at").strip())
    text = " ".join(match["text"].strip().strip("\"'").split()) if match else ""
    if not match or not text:
        raise UsageError(
            f'--prompt-at {entry!r} is not SECONDS:WORDS, such as 5s:"a hero walks through rain".'
        )
    at = float(match["seconds"])
    if at <= 0 or not math.isfinite(at):
        raise UsageError("--prompt-at starts after 0 s; what holds from the start is the prompt itself.")
    return at, text
