"""What a new prompt does to a running world, for every mode of ReCache.

    python -m weights.recipes.tiny_world.switches --switches 50 --sheet docs/pictures/x.png
    python -m weights.recipes.tiny_world.switches --model tiny-video --still

A world runs under random keys; at a new prompt it is forked once a mode, and every fork goes on under the
same keys. `arrived`: the colours are nearer to the new look than to the old one, and of all looks the
nearest has the new biome and time of day.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import streamgen as sg

from ..tiny_video.evaluate import sheet
from ..world import judge
from ..world.scene import HERO_LEFT, HERO_TOP, STEPS, Frames, Look
from ..world.terrain import CELL
from .data import LOOKS, keys, other, play, say
from .evaluate import rounded
from .rollouts import obeyed, walk

MODES = ("none", "last", "window", "cut")
BEFORE, AFTER = 12, 20  # frames


@dataclass(frozen=True)
class Turn:
    """One switch in one mode: `frames[BEFORE]` is the first under the new prompt."""

    mode: str
    old: Look
    new: Look
    played: tuple[str, ...]
    frames: Frames
    forwards: int
    tokens: int
    seconds: float


def choose(
    count: int, seed: int, after: int, still: bool = False
) -> list[tuple[Look, Look, str, str, int, tuple[str, ...]]]:
    """Switches whose ground changes its colours: old and new look and words, seed, keys (none if `still`)."""
    rng = np.random.default_rng((seed, 78))
    picked = []
    while len(picked) < count:
        old = LOOKS[rng.integers(len(LOOKS))]
        new = other(old, rng)
        if (old.biome, old.time, old.weather) == (new.biome, new.time, new.weather):
            continue
        played = tuple(keys(BEFORE + after, rng))
        played = ("stay",) * len(played) if still else played
        picked.append((old, new, say(old, rng), say(new, rng), int(rng.integers(1 << 30)), played))
    return picked


def turns(
    pipe: "sg.WorldPipeline",
    count: int,
    seed: int,
    modes: Sequence[str] = MODES,
    after: int = AFTER,
    still: bool = False,
) -> list[Turn]:
    """Every switch in every mode."""
    made = []
    for old, new, words, new_words, number, played in choose(count, seed, after, still):
        with pipe.start(words, seed=number, undo=1) as world:
            before = walk(world, played[:BEFORE])
            for mode in modes:
                with world.fork() as branch:
                    receipt = branch.set_prompt(new_words, mode=mode)  # type: ignore[arg-type]
                    frames = np.concatenate((before, walk(branch, played[BEFORE:])))
                cost = (receipt.forwards, receipt.tokens, receipt.seconds)
                made.append(Turn(mode, old, new, played, frames, *cost))
    return made


def arrived(turn: Turn, frame: Frames) -> bool:
    nearer = judge.distance(frame, turn.new) < judge.distance(frame, turn.old)
    return nearer and judge.look(frame)[:2] == (turn.new.biome, turn.new.time)


def layout(turn: Turn) -> float:
    """Share of the cells on both sides of the switch that keep their kind of ground."""
    before = judge.levels(turn.frames[BEFORE - 1], turn.old)
    after = judge.levels(turn.frames[BEFORE], turn.new)
    down, right = STEPS[turn.played[BEFORE]]
    both = np.zeros((16, 16), bool)
    both[max(0, -down) : 16 - max(0, down), max(0, -right) : 16 - max(0, right)] = True
    both[
        HERO_TOP // CELL - 1 : (HERO_TOP + 14) // CELL + 2,
        HERO_LEFT // CELL - 1 : (HERO_LEFT + 12) // CELL + 2,
    ] = False
    return float((np.roll(before, (-down, -right), (0, 1)) == after)[both].mean())


def simulated(turn: Turn) -> Turn:
    """The simulator's own switch, which the layout is measured against."""
    frames = np.concatenate(
        (play(turn.old, turn.played, 5)[:BEFORE], play(turn.new, turn.played, 5)[BEFORE:])
    )
    return Turn("true", turn.old, turn.new, turn.played, frames, 0, 0, 0.0)


def table(made: Sequence[Turn]) -> dict[str, float]:
    """The row of a mode."""
    first = np.array([arrived(turn, turn.frames[BEFORE]) for turn in made])
    second = np.array([arrived(turn, turn.frames[BEFORE + 1]) for turn in made])
    last = min(len(turn.frames) for turn in made) - 1
    row = {"arrived_1": first.mean(), "arrived_2": (first | second).mean()}
    for chunk in (1, 2, 4, last - BEFORE + 1):
        at = BEFORE + chunk - 1
        row[f"to_new_{chunk}"] = np.mean([judge.distance(turn.frames[at], turn.new) for turn in made])
        row[f"to_old_{chunk}"] = np.mean([judge.distance(turn.frames[at], turn.old) for turn in made])
    row["layout"] = np.mean([layout(turn) for turn in made])
    row["true_layout"] = np.mean([layout(simulated(turn)) for turn in made])
    row["obeys"] = np.concatenate([obeyed(t.frames[BEFORE:], t.played[BEFORE:]) for t in made]).mean()
    row["coat"] = np.mean([judge.who(turn.frames[-1]).coat == turn.new.coat for turn in made])
    row |= {
        "forwards": made[0].forwards,
        "tokens": made[0].tokens,
        "ms": 1e3 * np.median([t.seconds for t in made]),
    }
    return rounded(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny-world")
    parser.add_argument("--switches", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--still", action="store_true", help="press no key: for a model that knows none")
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pipe = sg.WorldPipeline.from_pretrained(options.model)
    made = turns(pipe, options.switches, options.seed, still=options.still)
    for mode in MODES:
        print(mode, json.dumps(table([turn for turn in made if turn.mode == mode])), flush=True)
    if options.sheet:
        sheet([turn.frames[BEFORE - 2 :][:10] for turn in made[: 4 * 4]], 10, options.sheet)


if __name__ == "__main__":
    main()
