"""Clips of the world under random keys: each frame shows what the key that led to it did.

Shapes: B clips, F frames, A actions (idle, up, down, left, right).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..world.prompts import Scene, describe, scenes
from ..world.scene import STEPS, Frames, Look, render

ACTIONS = ("stay", "north", "south", "west", "east")  # in the order of the planes
LOOKS = [scene.look for scene in scenes() if scene.walk == "stay" and scene.look.coat == "red"]
KEYS = {
    "up": ["KeyW", "ArrowUp"],
    "down": ["KeyS", "ArrowDown"],
    "left": ["KeyA", "ArrowLeft"],
    "right": ["KeyD", "ArrowRight"],
}
SETTINGS = {"input": "planes", "keys": KEYS, "idle": True, "exclusive": True, "mouse": 0}
HELD = 4  # chunks that a player holds a key, on average


@dataclass(frozen=True)
class Batch:
    frames: Tensor  # uint8 [B, F, 64, 64, 3]
    acts: Tensor  # [B, F, A], one-hot: what led to the frame; idle for the first
    words: list[str]
    prompt: Tensor  # [B, F], which words hold for a frame
    late: Tensor  # bool [B], frame 0 is a distant sink


def batch(
    clips: int, frames: int, rng: np.random.Generator, switches: float = 0.25, late: float = 0.45
) -> Batch:
    """Clips of random play; some change their look on the way, some begin far from their sink."""
    pictures, acts, words, prompt, far = [], [], [], [], []
    for number in range(clips):
        old, new = (LOOKS[index] for index in rng.integers(len(LOOKS), size=2))
        at = int(rng.integers(2, frames)) if rng.random() < switches else frames
        played = keys(frames, rng)
        seed, away = int(rng.integers(1 << 30)), bool(rng.random() < late)
        looks = [old if t < at else new for t in range(frames)]
        clip = play(looks, played, seed, first=int(rng.integers(8, 400)) if away else 0)
        if away:
            back = tuple(int(cell) for cell in rng.integers(-40, 41, size=2))
            clip[0] = render(old, ["stay"], seed, start=(back[0], back[1]))[0]
        pictures.append(clip)
        acts.append(np.eye(len(ACTIONS), dtype=np.float32)[[ACTIONS.index(act) for act in played]])
        words += [describe(Scene(look, "stay"), rng, terse=1.0) for look in (old, new)]
        prompt.append(2 * number + (np.arange(frames) >= at))
        far.append(away)
    return Batch(
        torch.from_numpy(np.stack(pictures)),
        torch.from_numpy(np.stack(acts)),
        words,
        torch.from_numpy(np.stack(prompt)),
        torch.tensor(far),
    )


def keys(frames: int, rng: np.random.Generator) -> list[str]:
    """What led to each frame: keys are held for a while, and sometimes nothing is."""
    played = ["stay"]
    while len(played) < frames:
        played += [ACTIONS[rng.integers(len(ACTIONS))]] * (1 + int(rng.poisson(HELD - 1)))
    return played[:frames]


def play(looks: Sequence[Look], played: Sequence[str], seed: int, first: int = 0) -> Frames:
    """The world one frame at a time; the hero faces where it walks."""
    cells: NDArray[np.int64] = np.cumsum([STEPS[act] for act in played], axis=0)
    return np.stack(
        [
            render(look, [act], seed, start=(int(row), int(column)), first=first + t)[0]
            for t, (look, act, (row, column)) in enumerate(zip(looks, played, cells, strict=True))
        ]
    )
