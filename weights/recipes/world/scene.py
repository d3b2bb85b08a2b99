"""The world on a screen: an agent-centred camera over endless ground, one cell a frame.

Shapes: T frames, 64 x 64 pixels, uint8 RGB.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import terrain
from .looks import light, tiles
from .sprites import hero, thing

SIZE = 64
MARGIN = 4  # cells kept around the path, for things that stand half outside the screen
HERO_TOP, HERO_LEFT = 24, 26
STEPS = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1), "stay": (0, 0)}
_BLOCK = 4  # cells; at most one thing in each block, at a place that repeats every two blocks
_PLACES = (((1, 3), (7, 8)), ((8, 5), (3, 7)))

Frames = NDArray[np.uint8]


@dataclass(frozen=True)
class Look:
    biome: str
    time: str
    weather: str
    coat: str


def ground(look: Look, y0: int, x0: int, height: int, width: int, seed: int) -> NDArray[np.float64]:
    """The lit ground with all that grows on it; cells [y0, y0+height) x [x0, x0+width) as pixels."""
    level = terrain.levels(x0, y0, height, width, seed)
    up = np.repeat(np.repeat(level, terrain.CELL, 0), terrain.CELL, 1)
    ys = np.arange(y0 * terrain.CELL, (y0 + height) * terrain.CELL) % 8
    xs = np.arange(x0 * terrain.CELL, (x0 + width) * terrain.CELL) % 8
    pixels = tiles(look.biome)[up, ys[:, None], xs[None, :]]
    water = up == terrain.WATER
    bank = water & ~np.roll(water, 1, 0)
    pixels[bank] *= 0.75
    glow = water & (look.biome == "lava")
    _grow(pixels, glow, level, look.biome, y0, x0, seed)
    return light(pixels, look.time, look.weather, glow)


def _grow(
    pixels: NDArray[np.float64],
    glow: NDArray[np.bool_],
    level: NDArray[np.int64],
    biome: str,
    y0: int,
    x0: int,
    seed: int,
) -> None:
    height, width = level.shape
    wild = terrain.growth(x0, y0, height, width, seed)
    for by in range(-(-y0 // _BLOCK), (y0 + height) // _BLOCK):
        for bx in range(-(-x0 // _BLOCK), (x0 + width) // _BLOCK):
            row, column = by * _BLOCK - y0 + 2, bx * _BLOCK - x0 + 2
            if row >= height or column >= width or level[row, column] < terrain.GROUND:
                continue
            if 0.4 < wild[row, column] < 0.5:
                continue
            kind = "tall" if wild[row, column] >= 0.5 else "low"
            picture, drawn = thing(kind, biome)
            py, px = _PLACES[by % 2][bx % 2]
            bottom, left = (by * _BLOCK - y0) * terrain.CELL + py + 7, (bx * _BLOCK - x0) * terrain.CELL + px
            top = bottom - picture.shape[0]
            if top < 0 or left < 0 or bottom > pixels.shape[0] or left + 8 > pixels.shape[1]:
                continue
            pixels[top:bottom, left : left + 8][drawn] = picture[drawn]
            if biome == "lava" and kind == "low":
                glow[top:bottom, left : left + 8] |= drawn


def rain(frame: int) -> NDArray[np.bool_]:
    """Where the streaks of rain are, [64, 64]; they fall one cell a frame and come back after four."""
    ys, xs = np.mgrid[0:SIZE, 0:SIZE]
    column = (xs * 5 + xs // 8 * 3) % 16
    return ((ys - terrain.CELL * frame - column * 7) % 16 < 3) & (xs % 5 == 1)


def path(walks: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Camera cells (row, column) in each frame: frame 0 is the start, `walks[t]` leads to frame t + 1."""
    steps = np.array([STEPS[walk] for walk in walks], dtype=np.int64).reshape(-1, 2)
    cells = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(steps, 0)])
    return cells[:, 0], cells[:, 1]


def render(
    look: Look,
    walks: Sequence[str],
    seed: int,
    start: tuple[int, int] = (0, 0),
    first: int = 0,
    poses: Sequence[tuple[str, bool]] | None = None,
) -> Frames:
    """Frames [len(walks) + 1, 64, 64, 3]; the hero faces where the next step leads.

    `start` is the camera's cell (row, column) in the first frame, which is frame number `first` of its
    stream. `poses` says for every frame where the hero faces instead, and whether it is walking.
    """
    rows, columns = path(walks)
    cells = SIZE // terrain.CELL
    y0, x0 = start[0] + int(rows.min()) - MARGIN, start[1] + int(columns.min()) - MARGIN
    height = int(np.ptp(rows)) + cells + 2 * MARGIN
    width = int(np.ptp(columns)) + cells + 2 * MARGIN
    land = ground(look, y0, x0, height, width, seed)
    frames = np.empty((len(rows), SIZE, SIZE, 3), np.uint8)
    for t, (row, column) in enumerate(zip(rows, columns, strict=True)):
        top = (int(row) + start[0] - y0) * terrain.CELL
        left = (int(column) + start[1] - x0) * terrain.CELL
        view = land[top : top + SIZE, left : left + SIZE].copy()
        facing, walking = poses[t] if poses else _ahead(walks, t)
        if look.weather == "rain":
            wet = rain(first + t)
            view[wet] = 0.6 * view[wet] + 0.4 * np.array((190.0, 210.0, 240.0))
        picture, drawn = hero(look.coat, facing, 1 + (first + t) % 2 if walking else 0)
        view[HERO_TOP : HERO_TOP + 14, HERO_LEFT : HERO_LEFT + 12][drawn] = picture[drawn]
        frames[t] = view.round()
    return frames


def _ahead(walks: Sequence[str], t: int) -> tuple[str, bool]:
    walk = walks[min(t, len(walks) - 1)] if walks else "stay"
    return ("south", False) if walk == "stay" else (walk, True)
