"""Open the writer that an output asks for."""

from pathlib import Path
from typing import BinaryIO

from streamgen.errors import UsageError
from streamgen.frames.clip import Clip, FrameWriter
from streamgen.frames.formats import Format
from streamgen.frames.mp4 import Mp4Writer
from streamgen.frames.muxer import MuxWriter
from streamgen.frames.png import PngWriter


def open_writer(target: Path | BinaryIO, form: Format, clip: Clip) -> FrameWriter:
    """A writer for `form` on a path or an open binary stream (which needs no seeking)."""
    if form.name == "mp4":
        return Mp4Writer(target, clip)
    if form.name != "png":
        return MuxWriter(target, form, clip)
    if not isinstance(target, Path):
        raise UsageError("png writes a folder and cannot go to a pipe; give a folder.")
    return PngWriter(target, clip)
