"""From RGB to what a format stores, with the matrix a player will assume.

H.264 carries tags, so mp4 is BT.709, and says so. y4m and raw carry none; players then assume BT.601
below 720 lines and BT.709 from there, so that is what is written.
"""

import av
from av.video.reformatter import Colorspace

from streamgen.frames.clip import Frames

BT709 = 1  # the same number names primaries, transfer and matrix (ITU-T H.273)
LIMITED, FULL = 1, 2


def untagged_matrix(height: int) -> Colorspace:
    """The matrix that a player assumes for a file that does not name one."""
    return Colorspace.ITU709 if height >= 720 else Colorspace.ITU601


def to_frame(rgb: Frames, pix_fmt: str, matrix: Colorspace) -> av.VideoFrame:
    """One RGB picture [H, W, 3] as a frame in the pixel format that is stored."""
    frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
    if pix_fmt == "rgb24":
        return frame
    return frame.reformat(format=pix_fmt, dst_colorspace=matrix)
