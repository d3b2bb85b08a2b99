"""Clips of the world with the words for them, rendered while training runs.

Shapes: B clips, F frames.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..world.prompts import Scene, describe, held_out, scenes
from ..world.scene import STEPS, Frames, Look, render

SHOWN = [scene for scene in scenes() if not held_out(scene)]


@dataclass(frozen=True)
class Batch:
    frames: Tensor  # uint8 [B, F, 64, 64, 3]
    words: list[str]  # descriptions
    prompt: Tensor  # [B, F], which description holds for a frame
    late: Tensor  # bool [B], frame 0 is a distant sink
    alone: Tensor  # bool [B], every frame begins a stream of its own
    fresh: Tensor  # [B, F, 2], the step (down, right) in cells that led to this frame
    heard: Tensor | None = None  # [B, F], under which description a frame was remembered, where it differs
    lost: Tensor | None = None  # bool [B, F], frames whose past belongs to another moment: no loss
    acts: Tensor | None = None  # [B, F, A], what the player did


@dataclass(frozen=True)
class Clip:
    frames: Frames
    words: list[str]
    prompt: NDArray[np.int64]
    steps: NDArray[np.int64]
    late: bool = False
    alone: bool = False


def batch(
    clips: int,
    frames: int,
    rng: np.random.Generator,
    switches: float = 0.25,
    late: float = 0.45,
    starts: int = 1,
) -> Batch:
    """`starts` of the clips are nothing but first frames: a stream begins only once, and must begin well."""
    parts = [_starts(frames, rng) for _ in range(starts)]
    parts += [_clip(frames, rng, rng.random() < switches, rng.random() < late) for _ in range(clips - starts)]
    offsets = np.cumsum([0, *(len(part.words) for part in parts)])
    return Batch(
        torch.from_numpy(np.stack([part.frames for part in parts])),
        [word for part in parts for word in part.words],
        torch.from_numpy(np.stack([part.prompt + at for part, at in zip(parts, offsets, strict=False)])),
        torch.tensor([part.late for part in parts]),
        torch.tensor([part.alone for part in parts]),
        torch.from_numpy(np.stack([part.steps for part in parts])),
    )


def _starts(frames: int, rng: np.random.Generator) -> Clip:
    chosen = [SHOWN[i] for i in rng.integers(len(SHOWN), size=frames)]
    pictures = [render(s.look, [s.walk], int(rng.integers(1 << 30)))[0] for s in chosen]
    words = [describe(scene, rng) for scene in chosen]
    return Clip(np.stack(pictures), words, np.arange(frames), np.zeros((frames, 2), np.int64), alone=True)


def _clip(frames: int, rng: np.random.Generator, switch: bool, late: bool) -> Clip:
    old = SHOWN[rng.integers(len(SHOWN))]
    new = _other(old, rng) if switch else old
    at = int(rng.integers(5 if late else 2, frames - 1)) if switch else frames
    walks = [old.walk if t < at else new.walk for t in range(frames)]
    seed, first = int(rng.integers(1 << 30)), int(rng.integers(8, 400)) if late else 0
    picture = render(old.look, walks[:-1], seed, first=first)
    if switch:
        picture[at:] = render(new.look, walks[:-1], seed, first=first)[at:]
    if late:
        picture[0] = _sink(old, seed, first)
    steps = np.array([(0, 0), *(STEPS[walk] for walk in walks[:-1])], np.int64)
    prompt = (np.arange(frames) >= at).astype(np.int64)
    return Clip(picture, [describe(old, rng), describe(new, rng)], prompt, steps, late)


def _sink(scene: Scene, seed: int, back: int) -> Frames:
    """The first frame of the stream, `back` steps before the clip."""
    rows, columns = STEPS[scene.walk]
    return render(scene.look, [scene.walk], seed, start=(-rows * back, -columns * back))[0]


def _other(scene: Scene, rng: np.random.Generator) -> Scene:
    """A new prompt: mostly one or two attributes change, sometimes all."""
    other = SHOWN[rng.integers(len(SHOWN))]
    kept = rng.random(5) < rng.choice([0.0, 0.5, 0.8])
    a, b = scene.look, other.look
    look = Look(
        a.biome if kept[0] else b.biome, a.time if kept[1] else b.time,
        a.weather if kept[2] else b.weather, a.coat if kept[3] else b.coat,
    )  # fmt: skip
    mixed = Scene(look, scene.walk if kept[4] else other.walk)
    return other if held_out(mixed) else mixed
