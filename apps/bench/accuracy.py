"""How often each memory is right: stories longer than the budget, judged by the simulator that drew them.

Stories and questions come from the recipe of tiny-vlm (`weights/recipes/tiny_vlm/evaluate.py`), which lies in
a checkout and not in a wheel. Every story is watched by each memory in turn and asked one question of every
kind at its end. The seconds to a first token are CPU seconds of this process: fork, question, token.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from statistics import median
from types import ModuleType
from typing import Any

import torch

import streamgen as sg
from streamgen.errors import UsageError
from streamgen.models.registry import weights_folder
from streamgen.pipelines.videoqa_memory import Memory, named

PARTS = (4, 2)  # a quarter and a half of the stream
CLAIMED = ("past_above_window", "now_above_uniform", "all_below_full", "bytes_of_full")
FORGETFUL = ("hermes", "window", "uniform")
INCLUDED = (
    "right answers by the simulator's truth, one question of every kind at the end of each story; bytes are "
    "keys and values remembered then, the prompt's among them; a first token is the median of CPU seconds of "
    "fork, question and token"
)


@dataclass(frozen=True)
class Row:
    """One memory with one budget."""

    memory: str
    budget: int  # video tokens of a layer
    shares: dict[str, float]  # of right answers by kind of question, and now, past, all
    bytes_held: int  # median over the stories
    first_token_s: float


@dataclass(frozen=True)
class Result:
    """What was measured on stories of one length."""

    model: str
    frames: int
    stream_tokens: int
    stories: int
    questions: int
    rows: list[Row]

    def row(self, memory: str) -> Row:
        """The first with this name: that of the smallest budget."""
        return next(row for row in self.rows if row.memory == memory)

    def record(self) -> dict[str, Any]:
        hermes, full = self.row("hermes"), self.row("full")
        return {
            **asdict(self),
            "past_above_window": hermes.shares["past"] - self.row("window").shares["past"],
            "now_above_uniform": hermes.shares["now"] - self.row("uniform").shares["now"],
            "all_below_full": full.shares["all"] - hermes.shares["all"],
            "bytes_of_full": hermes.bytes_held / full.bytes_held,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "included": INCLUDED,
        }


class Sheet:
    """The answers of one memory so far."""

    def __init__(self, name: str, budget: int) -> None:
        self.name, self.budget = name, budget
        self.memory: Memory = named(name, budget)
        self._right: dict[str, list[bool]] = defaultdict(list)
        self._firsts: list[float] = []
        self._bytes: list[int] = []

    def mark(self, sitting: Any, asked: Sequence[Any]) -> None:
        """Right or wrong, for each question of one story."""
        for one, words in zip(asked, sitting.said, strict=True):
            self._right[one.kind].append(words == one.answer)
        self._firsts += sitting.firsts
        self._bytes.append(sitting.bytes_held)

    def row(self, recipe: ModuleType) -> Row:
        found = recipe.shares(self._right)
        return Row(self.name, self.budget, found, int(median(self._bytes)), median(self._firsts))


def run(
    json_output: bool,
    model: str,
    frames: Sequence[int],
    stories: int,
    budget: int | None = None,
    attention: str = "auto",
) -> None:
    """Measure and print."""
    recipe = evaluation()
    pipe = sg.VideoQAPipeline.from_pretrained(model, attention=attention)
    results = (measure(recipe, pipe, length, stories, budget) for length in frames)
    if json_output:
        print(json.dumps([result.record() for result in results], indent=2))
        return
    for result in results:
        print(_table(result), flush=True)
    print(f"Included: {INCLUDED}.")


def evaluation() -> ModuleType:
    """The recipe's evaluation; UsageError where only the wheel is installed."""
    folder = weights_folder()
    if not (folder / "recipes" / "tiny_vlm").is_dir():
        raise UsageError(
            "Accuracy is measured on stories drawn by the recipe of tiny-vlm, which an installed streamgen "
            "does not carry; get streamgen's source and run `pip install -e .` in it."
        )
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    return import_module("weights.recipes.tiny_vlm.evaluate")


def measure(
    recipe: ModuleType, pipe: sg.VideoQAPipeline, frames: int, stories: int, budget: int | None
) -> Result:
    """Every memory on the same stories; `budget` None is a quarter and a half of a story's tokens."""
    tokens = pipe.parts.vision.most_tokens(frames)
    if budget is not None and budget >= tokens:
        raise UsageError(
            f"A budget of {budget} video tokens holds all {tokens} of a story of {frames} frames, so there "
            "is nothing to forget; give a smaller --budget or more --frames."
        )
    sheets = list(_sheets(tokens, budget))
    for pictures, asked in recipe.exam(frames, stories, 0):
        questions = [one.question for one in asked]
        for sheet in sheets:
            sheet.mark(recipe.sit(pipe, sheet.memory, pictures, questions), asked)
    rows = [sheet.row(recipe) for sheet in sheets]
    name = str(pipe.parts.name)
    return Result(name, frames, tokens, stories, stories * len(recipe.WORDINGS), rows)


def _sheets(tokens: int, budget: int | None) -> Iterator[Sheet]:
    for kept in [tokens // part for part in PARTS] if budget is None else [budget]:
        for name in FORGETFUL:
            yield Sheet(name, kept)
    yield Sheet("full", tokens)


def _table(result: Result) -> str:
    """Markdown, as `docs/` keeps it."""
    kinds = list(result.rows[0].shares)
    lines = [
        f"{result.model}, {result.frames} frames of {result.stream_tokens} tokens in all, {result.stories} "
        f"stories, {result.questions} questions a row:\n",
        f"| memory  | tokens | {' | '.join(f'{kind:>6}' for kind in kinds)} | KiB held | first token ms |",
        f"|---------|{'-------:|' * (1 + len(kinds))}---------:|---------------:|",
    ]
    for row in result.rows:
        found = " | ".join(f"{row.shares[kind]:>6.3f}" for kind in kinds)
        lines.append(
            f"| {row.memory:<7} | {row.budget:>6} | {found} | {row.bytes_held / 1024:>8.0f} "
            f"| {row.first_token_s * 1e3:>14.1f} |"
        )
    lines.append(_claim(result))
    return "\n".join(lines)


def _claim(result: Result) -> str:
    record = {name: value * 100 for name, value in result.record().items() if name in CLAIMED}
    return (
        f"\nWith {result.row('hermes').budget} tokens hermes is {record['past_above_window']:.1f} points "
        f"above window on the past, {record['now_above_uniform']:.1f} above uniform on now, and "
        f"{record['all_below_full']:.1f} below full on all, with {record['bytes_of_full']:.0f} % of its "
        "bytes.\n"
    )
