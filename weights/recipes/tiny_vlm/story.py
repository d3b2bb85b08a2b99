"""Walks through the world that change on the way, and what they show: the truth that questions are about.

A story is sampled at the model's rate: one frame in `STRIDE` of the world's. Shapes: T sampled frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..world import terrain
from ..world.looks import BIOMES, TIMES, WEATHERS
from ..world.scene import HERO_LEFT, HERO_TOP, SIZE, STEPS, Frames, Look, ground, rain, render
from ..world.sprites import COATS, hero
from .things import Things, things, visible

FPS, STRIDE = 2, 4  # the model's rate; the world walks at 8 frames a second
REGION = 128  # cells; training walks on a torus of such a side, so that its ground is drawn only once
REGIONS = 8
STAY = 3  # frames that a biome lasts, at least
MOST = 6  # changes of the biome, at most


@dataclass(frozen=True)
class Story:
    looks: list[Look]  # T
    walks: list[str]  # T, the step that led to each frame
    cells: NDArray[np.int64]  # [T, 2], the camera's row and column
    seed: int
    first: int  # number of the first frame in its stream

    def seen(self) -> tuple[list[set[str]], list[set[str]]]:
        """For each frame the things on the screen in full, and those that a part can be seen of."""
        low, high = self.cells.min(0) - 4, self.cells.max(0) + SIZE // terrain.CELL + 4
        box = (int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1]))
        here = _region(self.seed) if self.seed < REGIONS else things(*box, self.seed)
        shown = [visible(here, look.biome, cell) for look, cell in zip(self.looks, self.cells, strict=True)]
        return [full for full, _ in shown], [part for _, part in shown]


def story(frames: int, rng: np.random.Generator, seed: int | None = None) -> Story:
    """A random story; without a seed it walks on one of the training's regions."""
    walks = _walks(frames * STRIDE, rng)
    cells = np.cumsum([STEPS[walk] for walk in walks], axis=0)[::STRIDE] + rng.integers(REGION, size=2)
    if seed is None:
        cells, seed = cells % (REGION - SIZE // terrain.CELL), int(rng.integers(REGIONS))
    return Story(_looks(frames, rng), walks[::STRIDE], cells, seed, int(rng.integers(64)))


def draw(tale: Story) -> Frames:
    """The simulator's own frames, [T, 64, 64, 3]."""
    return np.stack([
        render(look, [walk], tale.seed, (int(row), int(column)), tale.first + STRIDE * t)[0]
        for t, (look, walk, (row, column)) in enumerate(zip(tale.looks, tale.walks, tale.cells, strict=True))
    ])  # fmt: skip


def draw_fast(tale: Story, rng: np.random.Generator) -> Frames:
    """The same on a training region, cut out of ground that is drawn once; the feet and the rain are
    random."""
    frames = np.empty((len(tale.looks), SIZE, SIZE, 3), np.uint8)
    for t, (look, walk, cell) in enumerate(zip(tale.looks, tale.walks, tale.cells, strict=True)):
        top, left = terrain.CELL * cell
        frames[t] = _land(look.biome, look.time, look.weather, tale.seed)[
            top : top + SIZE, left : left + SIZE
        ]
        if look.weather == "rain":
            wet = rain(int(rng.integers(4)))
            frames[t][wet] = 0.6 * frames[t][wet] + 0.4 * np.array((190.0, 210.0, 240.0))
        facing, pose = ("south", 0) if walk == "stay" else (walk, 1 + int(rng.integers(2)))
        picture, drawn = hero(look.coat, facing, pose)
        frames[t, HERO_TOP : HERO_TOP + 14, HERO_LEFT : HERO_LEFT + 12][drawn] = picture[drawn]
    return frames


@cache
def _land(biome: str, time: str, weather: str, seed: int) -> Frames:
    return ground(Look(biome, time, weather, "red"), 0, 0, REGION, REGION, seed).round().astype(np.uint8)


@cache
def _region(seed: int) -> Things:
    return things(0, 0, REGION, REGION, seed)


def _walks(frames: int, rng: np.random.Generator) -> list[str]:
    """Keys held for a while; in half of the stories for long."""
    walks: list[str] = []
    held = 4 if rng.random() < 0.5 else 40
    while len(walks) < frames:
        walks += [list(STEPS)[rng.integers(len(STEPS))]] * int(rng.geometric(1 / held))
    return walks[:frames]


def _biomes(frames: int, rng: np.random.Generator) -> list[str]:
    """One biome for each frame. The number of different ones is uniform, as far as the length allows it."""
    stay = min(STAY, max(1, frames // 4))
    kinds = int(rng.integers(1, min(4, frames // stay) + 1))
    places = 1 if kinds == 1 else int(rng.integers(kinds, max(kinds, min(MOST, frames // stay)) + 1))
    chosen = rng.permutation(len(BIOMES))[:kinds]
    order: Sequence[int] = []
    while len(set(order)) < kinds or any(a == b for a, b in zip(order, order[1:], strict=False)):
        order = [int(i) for i in rng.choice(chosen, places)]
    lengths = stay + rng.multinomial(frames - stay * places, rng.dirichlet(np.ones(places)))
    return [BIOMES[i] for i, length in zip(order, lengths, strict=True) for _ in range(length)]


def _looks(frames: int, rng: np.random.Generator) -> list[Look]:
    """Time, weather and coat change with the biome, sometimes; the time also on its own."""
    times = TIMES if rng.random() < 0.6 else ("day", "dusk")
    biomes = _biomes(frames, rng)
    alone = int(rng.integers(frames)) if rng.random() < 0.4 else -1

    def other(options: Sequence[str], old: str, share: float) -> str:
        return options[rng.integers(len(options))] if rng.random() < share else old

    now = Look(biomes[0], other(times, "", 1), other(WEATHERS, "", 1), other(list(COATS), "", 1))
    looks = []
    for t, biome in enumerate(biomes):
        if biome != now.biome:
            weather, coat = other(WEATHERS, now.weather, 0.3), other(list(COATS), now.coat, 0.4)
            now = Look(biome, other(times, now.time, 0.5), weather, coat)
        if t == alone:
            now = Look(biome, other(times, now.time, 1), now.weather, now.coat)
        looks.append(now)
    return looks
