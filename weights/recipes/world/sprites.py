"""Pictures of the hero and of what grows: small ASCII drawings, one letter a colour."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .looks import rgb

COATS = {
    "red": ("e03030", "b01c24"),
    "blue": ("3060f0", "1c40b8"),
    "green": ("10a050", "087038"),
    "yellow": ("f8d820", "d0a810"),
    "purple": ("a038d0", "7820a0"),
    "white": ("f4f4f4", "c8c8d0"),
}
FACINGS = ("south", "north", "east", "west")

_HEAD = {
    "south": ("...hhhhhh...", "..hhhhhhhh..", "..hhffffhh..", "..hfkffkfh..", "..hffffffh..", "...ffffff..."),
    "north": ("...hhhhhh...", "..hhhhhhhh..", "..hhhhhhhh..", "..hhhhhhhh..", "..hhhhhhhh..", "...hhhhhh..."),
    "east": ("...hhhhhh...", "..hhhhhhhh..", "..hhhhffff..", "..hhhffkff..", "..hhhfffff..", "...hhffff..."),
}
_BODY = {
    "south": ("..ccbccbcc..", ".fccbccbccf.", ".fccccccccf.", "..cccccccc.."),
    "north": ("..cccccccc..", ".fccccccccf.", ".fccccccccf.", "..cccccccc.."),
    "east": ("...ccccbc...", "...ccffbc...", "...ccffbc...", "...cccccc..."),
}
_LEGS = (  # standing, left foot, right foot
    ("..pppppppp..", "..ppp..ppp..", "..ppp..ppp..", "..kkk..kkk.."),
    ("..pppppppp..", "..ppp..ppp..", "..kkk..ppp..", ".......kkk.."),
    ("..pppppppp..", "..ppp..ppp..", "..ppp..kkk..", "..kkk......."),
)
_PLAIN = {"h": "5a3418", "f": "f4c49c", "k": "201818", "p": "283060"}

_THINGS: dict[str, dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "tall": {
        "meadow": (
            (
                "..gggg..",
                ".gglggg.",
                "ggllgggg",
                "gglgggdg",
                "gggggddg",
                ".gggddg.",
                "..gddg..",
                "...tt...",
                "...tt...",
                "..ttt...",
            ),
            {"g": "2c7c34", "l": "4ca04c", "d": "1c5c28", "t": "704828"},
        ),
        "desert": (
            (
                "...gg...",
                "...gl...",
                "g..gl..g",
                "g..gl..g",
                "gg.gl.gg",
                ".ggglgg.",
                "...gl...",
                "...gl...",
                "...gl...",
                "...gd...",
            ),
            {"g": "2c8c44", "l": "54b464", "d": "1c6030"},
        ),
        "snow": (
            (
                "...ww...",
                "..wggw..",
                "..gggg..",
                ".wgggw..",
                ".gggggg.",
                "wggggggw",
                ".gggggg.",
                "ggggggdg",
                "...tt...",
                "...tt...",
            ),
            {"g": "246058", "w": "fafcff", "d": "184840", "t": "604020"},
        ),
        "lava": (
            (
                "...r....",
                "...rr...",
                "..rrr...",
                "..rlr...",
                ".rrlr...",
                ".rllrr..",
                ".rlrrr..",
                "rrlrrrr.",
                "rllrrrd.",
                "rrrrrddd",
            ),
            {"r": "6c6470", "l": "9890a0", "d": "3c343c"},
        ),
    },
    "low": {
        "meadow": (
            (".w.w....", "wywyw...", ".w.w.w..", ".g..wyw.", ".g...w..", "..g.g..."),
            {"w": "ff7878", "y": "fff0a0", "g": "2c7c34"},
        ),
        "desert": (
            ("..rrr...", ".rllrr..", "rllrrrr.", "rlrrrrd.", "rrrrrddd", ".dddddd."),
            {"r": "a06840", "l": "c08c60", "d": "704428"},
        ),
        "snow": (
            ("..rrr...", ".rwwrr..", "rwwwrrr.", "rwrrrrd.", "rrrrrddd", ".dddddd."),
            {"r": "8898b0", "w": "f4f8ff", "d": "5c6c88"},
        ),
        "lava": (
            ("...y....", "..yoy...", "..yoy...", ".yowoy..", ".yowoy..", "..ooo..."),
            {"y": "ffd840", "o": "ff8420", "w": "fff8d0"},
        ),
    },
}

Picture = tuple[NDArray[np.float64], NDArray[np.bool_]]  # colours [h, w, 3], where they are drawn [h, w]


def _draw(rows: tuple[str, ...], colours: dict[str, str]) -> Picture:
    table = {c: rgb(code) for c, code in colours.items()}
    pixels = np.array([[table.get(c, (0, 0, 0)) for c in row] for row in rows], dtype=np.float64)
    return pixels, np.array([[c != "." for c in row] for row in rows])


@cache
def hero(coat: str, facing: str, pose: int) -> Picture:
    """The hero, 14 x 12 pixels; pose 0 stands, 1 and 2 are the two steps."""
    side = "east" if facing == "west" else facing
    light, dark = COATS[coat]
    pixels, drawn = _draw(_HEAD[side] + _BODY[side] + _LEGS[pose], _PLAIN | {"c": light, "b": dark})
    return (pixels[:, ::-1], drawn[:, ::-1]) if facing == "west" else (pixels, drawn)


@cache
def thing(kind: str, biome: str) -> Picture:
    """Something that grows or lies on the ground: `tall` (10 x 8 pixels) or `low` (6 x 8)."""
    return _draw(*_THINGS[kind][biome])
