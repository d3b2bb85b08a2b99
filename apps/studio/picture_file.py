"""Pictures that a page brings, decoded with a bound: few formats, and a size that is read before any pixel.

Shapes: H height, W width.
"""

import base64
import binascii
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamgen.errors import UsageError

PIXELS = 4096 * 2160  # of one picture
FORMATS = ("JPEG", "PNG", "WEBP")
DATA = "data:image/png;base64,"


def picture_in(data: bytes) -> NDArray[np.uint8]:
    """uint8 [H, W, 3] of a picture file."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > PIXELS:
                raise UsageError(
                    f"A picture of {image.width}x{image.height} is larger than this studio looks at: "
                    f"at most {PIXELS} pixels."
                )
            return np.array(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{len(data)} bytes came that are no {', '.join(FORMATS)} picture.") from error


def drawn_in(text: str) -> NDArray[np.bool_]:
    """A drawing of a canvas, as its `toDataURL` tells it: bool [H, W], true where it is light."""
    if not text.startswith(DATA):
        raise UsageError(f"A drawing is a text that begins with {DATA!r}, not {text[:30]!r}.")
    try:
        data = base64.b64decode(text.removeprefix(DATA), validate=True)
    except binascii.Error as error:
        raise UsageError(f"The {len(text)} characters of the drawing are not base64.") from error
    return picture_in(data)[..., 0] > 127
