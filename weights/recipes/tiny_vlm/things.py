"""What stands on the ground, by name, and which of it is on the screen.

Shapes: N things.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..world import scene, terrain

NAMES = {
    "tall": {"meadow": "tree", "desert": "cactus", "snow": "pine", "lava": "spire"},
    "low": {"meadow": "flower", "desert": "stone", "snow": "stone", "lava": "flame"},
}
ALL = tuple(sorted({name for kind in NAMES.values() for name in kind.values()}))
_HEIGHT = {"tall": 10, "low": 6}


@dataclass(frozen=True)
class Things:
    boxes: NDArray[np.int64]  # [N, 4]: top, left, bottom, right in the world's pixels
    tall: NDArray[np.bool_]  # [N]


def things(y0: int, x0: int, height: int, width: int, seed: int) -> Things:
    """Everything that grows in cells [y0, y0+height) x [x0, x0+width), by the rules of the scene."""
    level = terrain.levels(x0, y0, height, width, seed)
    wild = terrain.growth(x0, y0, height, width, seed)
    boxes, tall = [], []
    block = scene._BLOCK
    for by in range(-(-y0 // block), (y0 + height) // block):
        for bx in range(-(-x0 // block), (x0 + width) // block):
            row, column = by * block - y0 + 2, bx * block - x0 + 2
            inside = row < height and column < width
            if not inside or level[row, column] < terrain.GROUND or 0.4 < wild[row, column] < 0.5:
                continue
            kind = "tall" if wild[row, column] >= 0.5 else "low"
            py, px = scene._PLACES[by % 2][bx % 2]
            bottom, left = by * block * terrain.CELL + py + 7, bx * block * terrain.CELL + px
            boxes.append((bottom - _HEIGHT[kind], left, bottom, left + 8))
            tall.append(kind == "tall")
    return Things(np.array(boxes, dtype=np.int64).reshape(-1, 4), np.array(tall, dtype=bool))


def visible(here: Things, biome: str, cell: NDArray[np.int64]) -> tuple[set[str], set[str]]:
    """Names of the things in full view of the camera at `cell`, and of those that a part can be seen of."""
    boxes = here.boxes - np.tile(terrain.CELL * cell, 2)
    near = (boxes[:, :2] < scene.SIZE).all(1) & (boxes[:, 2:] > 0).all(1)
    boxes, tall = boxes[near], here.tall[near]
    behind = (boxes[:, 0] < scene.HERO_TOP + 14) & (boxes[:, 2] > scene.HERO_TOP)
    behind &= (boxes[:, 1] < scene.HERO_LEFT + 12) & (boxes[:, 3] > scene.HERO_LEFT)
    full = (boxes[:, :2] >= 0).all(1) & (boxes[:, 2:] <= scene.SIZE).all(1) & ~behind
    kinds = (("tall", tall), ("low", ~tall))
    return (
        {NAMES[kind][biome] for kind, those in kinds if (those & full).any()},
        {NAMES[kind][biome] for kind, those in kinds if those.any()},
    )
