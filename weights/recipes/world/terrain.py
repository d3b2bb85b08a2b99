"""Endless ground: four levels of smooth value noise from an integer hash, the same for every look.

Shapes: H, W cells (a cell is 4 x 4 pixels).
"""

import numpy as np
from numpy.typing import NDArray

CELL = 4  # pixels; the hero walks one cell a frame, so that motion is aligned with latent cells
WATER, SHORE, GROUND, THICKET = range(4)

Grid = NDArray[np.float64]


def lattice(x: NDArray[np.int64], y: NDArray[np.int64], seed: int) -> Grid:
    """A uniform number in [0, 1) for every lattice point; any integer coordinates, any seed."""
    h = x.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    h ^= y.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    h += np.uint64((seed * 0x165667B19E3779F9) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)
    return ((h ^ (h >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53


def smooth(x0: int, y0: int, height: int, width: int, period: int, seed: int) -> Grid:
    """Value noise in [0, 1) over cells [y0, y0+height) x [x0, x0+width); `period` cells between lattice
    points."""
    xs, ys = np.arange(x0, x0 + width), np.arange(y0, y0 + height)
    ix, iy = np.meshgrid(xs // period, ys // period)
    fx, fy = np.meshgrid((xs % period) / period, (ys % period) / period)
    fx, fy = (f * f * (3 - 2 * f) for f in (fx, fy))
    top = lattice(ix, iy, seed) * (1 - fx) + lattice(ix + 1, iy, seed) * fx
    low = lattice(ix, iy + 1, seed) * (1 - fx) + lattice(ix + 1, iy + 1, seed) * fx
    return top * (1 - fy) + low * fy


def levels(x0: int, y0: int, height: int, width: int, seed: int) -> NDArray[np.int64]:
    """Ground levels [H, W]: water, shore, ground, thicket."""
    field = 0.65 * smooth(x0, y0, height, width, 9, seed) + 0.35 * smooth(x0, y0, height, width, 5, seed + 1)
    return np.digitize(field, (0.36, 0.43, 0.6))


def growth(x0: int, y0: int, height: int, width: int, seed: int) -> Grid:
    """How much grows here, in [0, 1); slow, so that a wood announces itself before it is on the screen."""
    return smooth(x0, y0, height, width, 14, seed + 2)
