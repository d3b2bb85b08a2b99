"""How well `tiny-video` follows its prompts.

    python -m weights.recipes.tiny_video.evaluate --prompts 100 --seconds 5

Every clip starts from text alone, through the product's own pipeline; half of the prompts are
combinations that training never showed. The judge reads the pixels; contrast and detail are ratios to the
simulator's pictures of the same scenes.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import streamgen as sg

from ..world import judge
from ..world.prompts import Scene, describe, held_out, scenes
from ..world.scene import HERO_LEFT, HERO_TOP, Frames, render


@dataclass(frozen=True)
class Score:
    """Shares of frames (or of starts), and ratios to the simulator."""

    look: float  # biome and time of day both right
    walk: float  # the picture moves as the prompt says
    coat: float
    follows: float  # look, walk and coat all right
    start: float  # exactly one hero, in its place, in the first frame
    contrast: float
    detail: float


def choose(count: int, seed: int) -> list[tuple[Scene, str, int]]:
    """Scenes, their prompts and seeds; every second one a held-out combination."""
    rng = np.random.default_rng(seed)
    kinds = [[s for s in scenes() if held_out(s) == held] for held in (True, False)]
    picked = [kinds[i % 2][rng.integers(len(kinds[i % 2]))] for i in range(count)]
    return [(scene, describe(scene, rng), int(rng.integers(1 << 30))) for scene in picked]


def frames_right(scene: Scene, frames: Frames) -> np.ndarray:
    """Look, walk and coat of every frame, bool [T, 3]; a frame's walk is the step that led to it."""
    look = [judge.look(frame)[:2] == (scene.look.biome, scene.look.time) for frame in frames]
    walk = [judge.walk(a, b) == scene.walk for a, b in zip(frames, frames[1:], strict=False)]
    coat = [judge.who(frame).coat == scene.look.coat for frame in frames]
    return np.array([look, [walk[0], *walk], coat]).T


def score(pairs: Iterable[tuple[Scene, Frames]], tail: int, seed: int = 0) -> Score:
    """`tail`: how many of the last frames contrast and detail are taken from."""
    rng = np.random.default_rng(seed)
    right, starts, looks = [], [], []
    for scene, frames in pairs:
        right.append(frames_right(scene, frames))
        starts.append(judge.heroes(frames[0]) == [(HERO_TOP, HERO_LEFT)])
        true = np.concatenate(
            [render(scene.look, [scene.walk] * 7, int(rng.integers(1 << 30))) for _ in range(4)]
        )
        looks.append([f(x) for f in (judge.contrast, judge.detail) for x in (frames[-tail:], true)])
    every = np.concatenate(right)
    made, true, fine, true_fine = np.mean(looks, 0)
    return Score(*every.mean(0), every.all(1).mean(), np.mean(starts), made / true, fine / true_fine)


def clip(pipe: sg.VideoPipeline, prompt: str, frames: int, seed: int) -> Frames:
    return np.concatenate([chunk.frames for chunk in pipe.stream(prompt, frames=frames, seed=seed)])


def sheet(clips: list[Frames], columns: int, file: Path) -> None:
    rows = [np.concatenate(list(c[np.linspace(0, len(c) - 1, columns).astype(int)]), 1) for c in clips]
    picture = Image.fromarray(np.concatenate(rows))
    picture.resize((2 * picture.width, 2 * picture.height), Image.Resampling.NEAREST).save(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny-video")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pipe = sg.VideoPipeline.from_pretrained(options.model)
    pairs = []
    for scene, prompt, seed in choose(options.prompts, options.seed):
        pairs.append((scene, clip(pipe, prompt, round(options.seconds * pipe.settings.fps), seed)))
        one = frames_right(scene, pairs[-1][1]).mean(0).round(2).tolist()
        print(f"{one} {'held out' if held_out(scene) else 'shown   '} {prompt}", flush=True)
    print(json.dumps({k: round(float(v), 4) for k, v in asdict(score(pairs, tail=16)).items()}))
    if options.sheet:
        sheet([frames for _, frames in pairs[:16]], 10, options.sheet)


if __name__ == "__main__":
    main()
