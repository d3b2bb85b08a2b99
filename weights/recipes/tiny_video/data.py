"""Clips of the world with the words for them, rendered while training runs.

Shapes: B clips, F frames; prompts are numbered 2b and 2b + 1 for clip b (before and after its switch).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..world.prompts import Scene, describe, held_out, scenes
from ..world.scene import STEPS, Frames, Look, render

SHOWN = [scene for scene in scenes() if not held_out(scene)]


@dataclass(frozen=True)
class Batch:
    frames: Tensor  # uint8 [B, F, 64, 64, 3]
    words: list[str]  # 2B descriptions
    prompt: Tensor  # [B, F], which description holds for a frame
    late: Tensor  # bool [B], frame 0 is a distant sink
    fresh: Tensor  # [B, F, 2], the step (down, right) in cells that led to this frame


def batch(clips: int, frames: int, rng: np.random.Generator, switches: float = 0.25, late: float = 0.45) -> Batch:
    parts = [_clip(frames, rng, rng.random() < switches, rng.random() < late) for _ in range(clips)]
    prompt = torch.stack([torch.from_numpy(part[2]) + 2 * b for b, part in enumerate(parts)])
    return Batch(
        torch.from_numpy(np.stack([part[0] for part in parts])),
        [word for part in parts for word in part[1]],
        prompt,
        torch.tensor([part[3] for part in parts]),
        torch.from_numpy(np.stack([part[4] for part in parts])),
    )


def _clip(
    frames: int, rng: np.random.Generator, switch: bool, late: bool
) -> tuple[Frames, list[str], np.ndarray, bool, np.ndarray]:
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
    return picture, [describe(old, rng), describe(new, rng)], prompt, late, steps


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
