"""Frames in from files, pipes, servers and cameras, and out to files and pipes."""

from streamgen.frames.clip import Clip, FrameWriter, WriteError
from streamgen.frames.formats import FORMATS, Format, format_of
from streamgen.frames.mp4 import describe, description
from streamgen.frames.opening import open_writer
from streamgen.frames.read_errors import DamagedVideoError, NoVideoError, ReadError, SourceLostError
from streamgen.frames.reader import Frame, Reader, read
from streamgen.frames.scale import enlarge

__all__ = [
    "FORMATS",
    "Clip",
    "DamagedVideoError",
    "Format",
    "Frame",
    "FrameWriter",
    "NoVideoError",
    "ReadError",
    "Reader",
    "SourceLostError",
    "WriteError",
    "describe",
    "description",
    "enlarge",
    "format_of",
    "open_writer",
    "read",
]
