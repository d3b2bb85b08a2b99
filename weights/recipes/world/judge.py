"""What a picture of the world shows, read from its pixels alone: look, walk, hero, contrast, detail.

The judge knows the world's colours and sprites, never the model. On the simulator's own frames it is
always right.

Shapes: frames uint8 [T, 64, 64, 3].
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from .looks import BIOMES, TIMES, WEATHERS, light, tiles
from .scene import HERO_LEFT, HERO_TOP, SIZE, STEPS, Frames, Look
from .sprites import COATS, FACINGS, hero
from .terrain import CELL

HERO = 34.0  # root mean square error (0..255) of a sprite below which it counts as a hero
_BOX = (slice(HERO_TOP, HERO_TOP + 14), slice(HERO_LEFT, HERO_LEFT + 12))
Floats = NDArray[np.float32]


@cache
def _palettes() -> tuple[list[tuple[str, str, str]], Floats]:
    """Every look's ground colours, [looks, 12, 3]: four levels, three tones each."""
    names = [(b, t, w) for b in BIOMES for t in TIMES for w in WEATHERS]
    colours = []
    for biome, time, weather in names:
        tones = [np.unique(tile.reshape(-1, 3), axis=0)[:3] for tile in tiles(biome)]
        glow = np.arange(12)[:, None].repeat(1, 1)[:, 0] < (3 if biome == "lava" else 0)
        colours.append(light(np.concatenate(tones), time, weather, glow))
    return names, np.stack(colours).astype(np.float32)


def look(frame: Frames) -> tuple[str, str, str]:
    """Biome, time and weather whose ground colours are nearest to the pixels of one frame [64, 64, 3]."""
    names, palettes = _palettes()
    return names[int(np.argmin([_distance(frame, colours) for colours in palettes]))]


def distance(frame: Frames, look: Look) -> float:
    """How far the pixels are from a look's ground colours: mean over pixels, three channels summed, at most
    60."""
    names, palettes = _palettes()
    return _distance(frame, palettes[names.index((look.biome, look.time, look.weather))])


def levels(frame: Frames, look: Look) -> NDArray[np.int64]:
    """The kind of ground in every cell [16, 16], as the nearest of the look's colours tells."""
    names, palettes = _palettes()
    colours = palettes[names.index((look.biome, look.time, look.weather))]
    near = np.abs(frame.astype(np.float32)[:, :, None] - colours).sum(-1)  # [64, 64, 12]
    kinds = near.reshape(SIZE, SIZE, 4, 3).min(-1).argmin(-1)
    votes = np.eye(4)[kinds].reshape(SIZE // CELL, CELL, SIZE // CELL, CELL, 4).sum((1, 3))
    return votes.argmax(-1)


def _distance(frame: Frames, colours: Floats) -> float:
    pixels = frame[1::4, ::4].reshape(-1, 3).astype(np.float32)
    near = np.abs(pixels[:, None] - colours[None]).sum(-1).min(1)
    return float(np.minimum(near, 60).mean())


def walk(before: Frames, after: Frames, ahead: str | None = None) -> str | None:
    """The step between two frames, from the global shift; None when the picture is too flat or too new to
    tell.

    Where the ground repeats, the hero's face tells a step from its opposite: `ahead`, or the face before.
    """
    a, b = before.astype(np.float32), after.astype(np.float32)
    inside = np.zeros((64, 64), bool)
    inside[2 * CELL : -2 * CELL, 2 * CELL : -2 * CELL] = True
    inside[HERO_TOP - CELL : HERO_TOP + 14 + CELL, HERO_LEFT - CELL : HERO_LEFT + 12 + CELL] = False
    inside[:, np.isin(np.arange(64) % 5, (0, 1, 2))] = False  # rain falls in column 1, moved in 0 and 2
    errors = {}
    for name, (down, right) in STEPS.items():
        moved = np.roll(a, (-down * CELL, -right * CELL), (0, 1))
        errors[name] = float(np.abs(moved - b)[inside].mean())
    best, second, third = sorted(errors, key=errors.__getitem__)[:3]
    if errors[best] < 0.9 * errors[second]:
        return best
    ahead = ahead or who(before).facing
    opposite = {best, second} in ({"north", "south"}, {"east", "west"})
    return ahead if opposite and ahead in (best, second) and errors[second] < 0.8 * errors[third] else None


@dataclass(frozen=True)
class Seen:
    coat: str
    facing: str
    error: float  # mean absolute error of the sprite, 0..255


@cache
def _sprites() -> tuple[list[tuple[str, str]], torch.Tensor, torch.Tensor]:
    names = [(coat, facing) for coat in COATS for facing in FACINGS for _ in range(3)]
    pictures = [hero(coat, facing, pose) for coat in COATS for facing in FACINGS for pose in range(3)]
    pixels = torch.from_numpy(np.stack([p for p, _ in pictures])).permute(0, 3, 1, 2).float()
    drawn = torch.from_numpy(np.stack([m for _, m in pictures]))[:, None].float()
    return names, pixels, drawn


def who(frame: Frames) -> Seen:
    """The sprite nearest to what stands in the hero's place."""
    names, pixels, drawn = _sprites()
    here = torch.from_numpy(frame[_BOX].copy()).permute(2, 0, 1).float()
    error = ((pixels - here).abs() * drawn).sum((1, 2, 3)) / (3 * drawn.sum((1, 2, 3)))
    best = int(error.argmin())
    return Seen(*names[best], float(error[best]))


def heroes(frame: Frames) -> list[tuple[int, int]]:
    """Places (top, left) where a hero stands, at most one within 8 pixels."""
    _, pixels, drawn = _sprites()
    x = torch.from_numpy(frame.copy()).permute(2, 0, 1)[None].float()
    mask = drawn.expand(-1, 3, -1, -1)
    square = (
        F.conv2d(x**2, mask)
        - 2 * F.conv2d(x, pixels * mask)
        + (pixels**2 * mask).sum((1, 2, 3))[:, None, None]
    )
    error = (square[0] / mask.sum((1, 2, 3))[:, None, None]).clamp_min(0).sqrt().amin(0)
    found: list[tuple[int, int]] = []
    for index in error.flatten().argsort():
        place = divmod(int(index), error.shape[1])
        if error[place] > HERO:
            break
        if all(max(abs(place[0] - y), abs(place[1] - x)) > 8 for y, x in found):
            found.append(place)
    return found


def contrast(frames: Frames) -> float:
    """Standard deviation of the brightness, averaged over frames."""
    return float(frames.astype(np.float32).mean(-1).std((1, 2)).mean())


def detail(frames: Frames) -> float:
    """Mean absolute difference of neighbouring pixels."""
    x = frames.astype(np.float32)
    return float((np.abs(np.diff(x, axis=1)).mean() + np.abs(np.diff(x, axis=2)).mean()) / 2)
