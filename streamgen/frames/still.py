"""Picture files as videos of one frame; an animated WebP, which FFmpeg cannot read, as what it is.

Shapes: H height, W width.
"""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, ImageSequence

from streamgen.frames.clip import Frames
from streamgen.frames.read_errors import NoVideoError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")


def is_still(path: Path) -> bool:
    """Whether a path names a picture."""
    return path.suffix.lower() in SUFFIXES


def pictures(path: Path) -> Iterator[tuple[Fraction, Frames]]:
    """Times and uint8 [H, W, 3] of a picture file, turned as its EXIF data say."""
    time = Fraction(0)
    try:
        with Image.open(path) as image:
            for page in ImageSequence.Iterator(image):
                yield time, np.array(ImageOps.exif_transpose(page).convert("RGB"))
                if image.format != "WEBP":
                    return  # the pages of a TIFF, and the previews of a photo, are no video
                time += Fraction(int(page.info.get("duration", 0)), 1000)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise NoVideoError(f"The picture {path} cannot be read: it is damaged, or no picture.") from error
