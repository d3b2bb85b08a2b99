"""Free-running play, and what the judge makes of it.

Shapes: T frames, uint8 [T, 64, 64, 3].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import streamgen as sg

from ..world import judge
from ..world.scene import HERO_LEFT, HERO_TOP, STEPS, Frames, Look
from ..world.terrain import CELL
from .data import KEYS, LOOKS, keys, play, say

CODES = {
    "stay": (),
    **{
        act: (KEYS[name][0],)
        for act, name in zip(("north", "south", "west", "east"), ("up", "down", "left", "right"), strict=True)
    },
}


@dataclass(frozen=True)
class Rollout:
    """What was played, and the pictures; `played[t]` led to frame t."""

    look: Look
    prompt: str
    seed: int
    played: tuple[str, ...]
    frames: Frames

    @cached_property
    def true(self) -> Frames:
        """The simulator's pictures of some ground under the same look and keys."""
        return play(self.look, self.played, self.seed)


def choose(count: int, frames: int, seed: int) -> list[tuple[Look, str, int, tuple[str, ...]]]:
    """Looks, prompts, seeds and keys that no training step used: training draws from other generators."""
    rng = np.random.default_rng((seed, 77))
    picked = []
    for _ in range(count):
        look = LOOKS[rng.integers(len(LOOKS))]
        picked.append((look, say(look, rng), int(rng.integers(1 << 30)), tuple(keys(frames, rng))))
    return picked


def walk(world: "sg.WorldSession", played: Sequence[str]) -> Frames:
    """The frames of a running world under these steps."""
    return np.concatenate([world.step(CODES[act]).frames for act in played])


def roll(
    pipe: "sg.WorldPipeline",
    look: Look,
    prompt: str,
    seed: int,
    played: Sequence[str],
    sink: int | None = None,
    steps: int | None = None,
) -> Rollout:
    """One world from words alone."""
    with pipe.start(prompt, seed=seed, sink=sink, steps=steps, undo=1) as world:
        return Rollout(look, prompt, seed, tuple(played), walk(world, played))


def obeyed(frames: Frames, played: Sequence[str]) -> NDArray[np.bool_]:
    """Frames 1.. whose scroll from the frame before is the commanded one, [T - 1]."""
    pairs = zip(frames, frames[1:], played[1:], strict=False)
    return np.array([judge.walk(a, b, judge.who(b).facing) == act for a, b, act in pairs])


def faces(frames: Frames, played: Sequence[str], facing: str = "south") -> NDArray[np.bool_]:
    """Frames whose hero looks where it went last, [T]."""
    right = []
    for frame, act in zip(frames, played, strict=True):
        facing = facing if act == "stay" else act
        right.append(judge.who(frame).facing == facing)
    return np.array(right)


def kept(frames: Frames, played: Sequence[str], back: int = 1) -> NDArray[np.float64]:
    """PSNR of what is on screen both now and `back` frames ago, moved by the keys, [T - back]; dB.

    Only looks without rain can be judged so; the hero and a border of its size are left out.
    """
    moves = np.cumsum([STEPS[act] for act in played], 0) * CELL
    ratios = []
    for t in range(back, len(frames)):
        down, right = moves[t] - moves[t - back]
        valid = np.zeros((64, 64), bool)
        valid[max(0, -down) : 64 - max(0, down), max(0, -right) : 64 - max(0, right)] = True
        _cover(valid, 0, 0)
        _cover(valid, -down, -right)
        moved = np.roll(frames[t - back].astype(np.float64), (-down, -right), (0, 1))
        error = ((moved - frames[t]) ** 2)[valid].mean() if valid.any() else 0.0
        ratios.append(10 * np.log10(255**2 / max(error, 1e-2)))
    return np.array(ratios)


def _cover(valid: NDArray[np.bool_], down: int, right: int) -> None:
    """Leave out a hero, where it stands in a picture that was moved."""
    top, left = HERO_TOP + down, HERO_LEFT + right
    valid[max(0, top) : max(0, top + 14), max(0, left) : max(0, left + 12)] = False
