"""Frames out to files and pipes (mp4, y4m, raw, NUT, MJPEG, PNG folder)."""

from streamgen.frames.clip import Clip, FrameWriter, WriteError
from streamgen.frames.formats import FORMATS, Format, format_of
from streamgen.frames.opening import open_writer
from streamgen.frames.scale import enlarge

__all__ = [
    "FORMATS",
    "Clip",
    "Format",
    "FrameWriter",
    "WriteError",
    "enlarge",
    "format_of",
    "open_writer",
]
