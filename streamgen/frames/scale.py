"""Nearest-neighbour enlargement: a 64x64 video is small on a screen, and blur would add what was not made.

Shapes: T frames, H height, W width, C channels.
"""

from einops import repeat

from streamgen.frames.clip import Frames


def enlarge(frames: Frames, scale: int) -> Frames:
    """Repeat every pixel `scale` times in both directions."""
    if scale == 1:
        return frames
    return repeat(frames, "t h w c -> t (h sh) (w sw) c", sh=scale, sw=scale)
