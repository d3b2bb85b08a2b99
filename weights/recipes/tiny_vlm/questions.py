"""Questions about a story, in several wordings each, and their answers by the simulator's truth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .story import Story
from .things import ALL

WORDINGS = {
    "where": (
        "where is the hero now?",
        "where is the hero?",
        "which biome is this?",
        "which land is the hero in now?",
    ),
    "walk": (
        "which way does the hero walk now?",
        "which way does the hero walk?",
        "in which direction does the hero walk now?",
    ),
    "coat": (
        "which coat does the hero wear now?",
        "what colour is the coat of the hero?",
        "what colour is the coat now?",
    ),
    "first": ("which biome came first?", "where did the hero start?", "which land did the hero see first?"),
    "before": (
        "which biome came before this one?",
        "where was the hero before?",
        "which land came before this one?",
    ),
    "count": (
        "how many biomes were visited?",
        "how many biomes did the hero visit?",
        "how many lands did the hero see?",
    ),
    "night": ("was it night at any time?", "was it ever night?", "did night come?", "was it night?"),
    "seen": ("was a {} seen?", "did the hero see a {}?", "was there a {}?"),
}
NOW = ("where", "walk", "coat")
PAST = ("first", "before", "count", "night", "seen")
NUMBERS = ("none", "one", "two", "three", "four")


@dataclass(frozen=True)
class Asked:
    kind: str
    question: str
    answer: str
    time: int  # the last frame that has been seen


def _route(tale: Story, time: int) -> list[str]:
    biomes = [look.biome for look in tale.looks[: time + 1]]
    return [b for t, b in enumerate(biomes) if t == 0 or b != biomes[t - 1]]


def _night(tale: Story, time: int) -> str:
    return "yes" if any(look.time == "night" for look in tale.looks[: time + 1]) else "no"


_ANSWERS: dict[str, Callable[[Story, int], str]] = {
    "where": lambda tale, time: tale.looks[time].biome,
    "walk": lambda tale, time: {"stay": "nowhere"}.get(tale.walks[time], tale.walks[time]),
    "coat": lambda tale, time: tale.looks[time].coat,
    "first": lambda tale, _: tale.looks[0].biome,
    "before": lambda tale, time: (["none", *_route(tale, time)])[-2],
    "count": lambda tale, time: NUMBERS[len(set(_route(tale, time)))],
    "night": _night,
}


class Quiz:
    """Asks about one story, at any time of it."""

    def __init__(self, tale: Story) -> None:
        self.tale = tale
        self.full, self.part = tale.seen()

    def ask(self, kind: str, time: int, rng: np.random.Generator, wording: int | None = None) -> Asked:
        """`wording` chooses one; otherwise any."""
        options = WORDINGS[kind]
        question = options[int(rng.integers(len(options))) if wording is None else wording]
        if kind != "seen":
            return Asked(kind, question, _ANSWERS[kind](self.tale, time), time)
        yes = set().union(*self.full[: time + 1])
        no = set(ALL) - set().union(*self.part[: time + 1])
        if not yes | no:  # all is half hidden
            return self.ask("where", time, rng)
        said = "yes" if yes and (not no or rng.random() < 0.5) else "no"
        names = sorted(yes if said == "yes" else no)
        return Asked(kind, question.format(names[rng.integers(len(names))]), said, time)


def vocabulary() -> list[str]:
    """Every text that a question or an answer can be made of."""
    answers = ["meadow desert snow lava north south east west nowhere yes no"]
    coats = ["red blue green yellow purple white"]
    return [*(w for options in WORDINGS.values() for w in options), *answers, *coats, *NUMBERS, *ALL]
