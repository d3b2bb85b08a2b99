"""When which question is asked: times as they are typed, and what several of them mean together."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from streamgen.errors import UsageError

_CLOCK = re.compile(r"(?:(?:(\d+):)?(\d{1,2}):)?(\d+(?:\.\d+)?)s?")


@dataclass(frozen=True)
class Asking:
    """A question and the second of the video at which it is asked; None is as late as possible."""

    question: str
    at: float | None


def parse_time(text: str, option: str = "--at") -> float:
    """`190`, `190.5s`, `3:10` or `0:03:10` in seconds."""
    match = _CLOCK.fullmatch(text.strip())
    hours, minutes, seconds = ((float(part or 0)) for part in match.groups()) if match else (0, 0, math.nan)
    if (
        math.isnan(seconds)
        or (match and match[2] and seconds >= 60)
        or (match and match[1] and minutes >= 60)
    ):
        raise UsageError(f"{option} {text!r} is no time; give seconds such as 12.5, or 3:10, or 0:03:10.")
    return 3600 * hours + 60 * minutes + seconds


def schedule(questions: Sequence[str], times: Sequence[float]) -> tuple[Asking, ...]:
    """Which question is asked when, in the order of time.

    No time: every question at the end. One: every question then. As many as there are questions: each at
    its own, in the order given. Several for one question: the same question again and again.
    """
    if not times:
        return tuple(Asking(question, None) for question in questions)
    if len(times) == 1:
        times = [times[0]] * len(questions)
    elif len(questions) == 1:
        questions = [questions[0]] * len(times)
    if len(times) != len(questions):
        raise UsageError(
            f"{len(questions)} questions and {len(times)} times do not pair; give one --at for all of them, "
            "one for each, or one question with several times."
        )
    pairs = (Asking(question, at) for question, at in zip(questions, times, strict=True))
    return tuple(sorted(pairs, key=lambda asking: asking.at or 0.0))


def clock(seconds: float) -> str:
    """12.5 -> 0:12.5; 3790 -> 1:03:10."""
    minutes, rest = divmod(round(seconds, 2), 60)
    hours, minutes = divmod(int(minutes), 60)
    words = f"{rest:05.2f}".rstrip("0").rstrip(".")
    return f"{hours}:{minutes:02d}:{words}" if hours else f"{minutes}:{words}"
