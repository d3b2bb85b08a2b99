"""A decoded frame as a picture: RGB, and the way up that its file says.

Shapes: H height, W width.
"""

from typing import Any, cast

import av
import numpy as np
from av.sidedata.sidedata import Type
from numpy.typing import NDArray

from streamgen.frames.clip import Frames
from streamgen.frames.colour import untagged_matrix

_UNTAGGED = 2  # ITU-T H.273: the matrix is not said


def picture_of(frame: av.VideoFrame) -> Frames:
    """uint8 [H, W, 3]. The display matrix is applied; pixels that are not square stay as they are stored."""
    untagged = frame.colorspace == _UNTAGGED and frame.format.name.startswith(("yuv", "nv"))
    matrix = untagged_matrix(frame.height) if untagged else None
    rgb = cast(Frames, frame.to_ndarray(format="rgb24", src_colorspace=matrix))
    try:
        sides = cast(Any, frame.side_data)  # a mapping from Type to buffers
    except ValueError:  # PyAV has no name for something beside this frame, such as EXIF
        return np.ascontiguousarray(np.rot90(rgb, frame.rotation // 90))
    if Type.DISPLAYMATRIX not in sides:
        return rgb
    return turned(rgb, np.frombuffer(sides[Type.DISPLAYMATRIX], np.int32))


def turned(rgb: Frames, matrix: NDArray[np.int32]) -> Frames:
    """Apply the quarter turns and mirrorings of a display matrix (a b u, c d v, x y w).

    A stored pixel (x, y) is shown at (ax + cy, bx + dy). Angles between quarter turns are not applied.
    """
    a, b, c, d = (int(matrix[index]) for index in (0, 1, 3, 4))
    if abs(b) > abs(a):
        rgb, (a, d) = rgb.transpose(1, 0, 2), (c, b)
    rows = slice(None, None, -1 if d < 0 else 1)
    columns = slice(None, None, -1 if a < 0 else 1)
    return np.ascontiguousarray(rgb[rows, columns])
