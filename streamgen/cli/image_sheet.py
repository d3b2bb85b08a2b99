"""Sheets of pictures: a grid, a strip of scales, an animation.

Shapes: B pictures, H height, W width.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

Pictures = npt.NDArray[np.uint8]  # [B, H, W, 3]


def grid(pictures: Pictures, columns: int) -> Pictures:
    """Rows of so many pictures, left to right; what is missing at the end is white."""
    rows = math.ceil(len(pictures) / columns)
    blank = np.full((rows * columns, *pictures.shape[1:]), 255, dtype=np.uint8)
    blank[: len(pictures)] = pictures
    height, width = pictures.shape[1:3]
    sheet = blank.reshape(rows, columns, height, width, 3).transpose(0, 2, 1, 3, 4)
    return sheet.reshape(rows * height, columns * width, 3)


def columns_for(pictures: int, of_each: int) -> int:
    """A row for each label where there are several of each, else about a square."""
    return of_each if of_each > 1 else math.ceil(math.sqrt(pictures))


def strip(scales: Sequence[Pictures]) -> Pictures:
    """A row for each picture: how it looked after every scale."""
    return grid(np.stack(scales, axis=1).reshape(-1, *scales[0].shape[1:]), len(scales))


def enlarged(sheet: Pictures, times: int) -> Image.Image:
    """Every pixel repeated."""
    return Image.fromarray(sheet.repeat(times, 0).repeat(times, 1))
