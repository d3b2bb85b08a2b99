"""Looks: the colours of four biomes, three times of day and three kinds of weather, and the ground's
tiles."""

import numpy as np
from numpy.typing import NDArray

BIOMES = ("meadow", "desert", "snow", "lava")
TIMES = ("day", "dusk", "night")
WEATHERS = ("clear", "rain", "fog")

Pixels = NDArray[np.float64]

# One colour and two accents for each level: water, shore, ground, thicket.
_GROUND: dict[str, tuple[tuple[str, str, str], ...]] = {
    "meadow": (
        ("4a8ee0", "66a8f0", "3c7ccc"),
        ("e2d08a", "d0bc74", "efe0a4"),
        ("72c04e", "5aa83e", "8ed468"),
        ("4c9440", "3c8032", "62aa50"),
    ),
    "desert": (
        ("44b4bc", "60ccd0", "369ca6"),
        ("f0dca0", "e0c888", "f8e8b8"),
        ("e0b468", "cc9e54", "f0c880"),
        ("c08c50", "a87640", "d2a064"),
    ),
    "snow": (
        ("90c4ec", "acd8f6", "7ab0dc"),
        ("d4e2f2", "c2d4ea", "e4eefa"),
        ("f0f6fc", "dce8f4", "ffffff"),
        ("d8d8f0", "c4c6e4", "e8e8fa"),
    ),
    "lava": (
        ("ff8c1c", "ffb840", "e86c10"),
        ("a03020", "c04428", "842418"),
        ("5a4a4e", "463a3e", "70605e"),
        ("40343a", "302830", "52444a"),
    ),
}
_TILES = (  # 8 x 8, world aligned: '.' colour, '1' and '2' its accents
    ("........", ".111....", "........", "......22", "........", "....111.", "........", ".22....."),
    ("........", "..1.....", "......2.", "........", "....1...", "........", ".2......", "......1."),
    ("..1.....", ".121....", "........", ".....1..", "....121.", "........", ".2......", "......2."),
    (".1...1..", "121.121.", ".1...1..", "...1...1", "2.121.12", "...1...1", ".2...2..", "........"),
)
_TIME = {  # multiply each channel, then add
    "day": ((1.0, 1.0, 1.0), (0, 0, 0)),
    "dusk": ((0.86, 0.58, 0.56), (38, 8, 24)),
    "night": ((0.24, 0.32, 0.50), (4, 8, 34)),
}
_WEATHER = {  # how far towards which colour
    "clear": (0.0, (0, 0, 0)),
    "rain": (0.34, (46, 64, 92)),
    "fog": (0.5, (176, 182, 188)),
}


def rgb(code: str) -> tuple[int, int, int]:
    return int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)


def tiles(biome: str) -> Pixels:
    """The ground of a biome: [level, 8, 8, 3]."""
    colours = np.array([[rgb(code) for code in level] for level in _GROUND[biome]], dtype=np.float64)
    index = np.array([[[".12".index(c) for c in row] for row in tile] for tile in _TILES])
    return np.stack([colours[level][index[level]] for level in range(4)])


def light(pixels: Pixels, time: str, weather: str, glow: NDArray[np.bool_] | None = None) -> Pixels:
    """Daylight colours [..., 3] under a time of day and a weather; `glow` marks pixels that shine at
    night."""
    factor, offset = _TIME[time]
    lit = pixels * np.array(factor) + np.array(offset, dtype=np.float64)
    if glow is not None:
        lit = np.where(glow[..., None], 0.25 * lit + 0.75 * pixels, lit)
    share, veil = _WEATHER[weather]
    if time == "night":
        veil = tuple(0.4 * v for v in veil)
    return np.clip(lit * (1 - share) + share * np.array(veil, dtype=np.float64), 0, 255)
