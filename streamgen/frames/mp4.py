"""H.264 in mp4: fragmented while it is recorded, an ordinary fast-start file once it is closed.

A recording that is cut off keeps all fragments written so far and plays. Odd sizes: H.264 with
halved chroma needs even ones, so the last column or row is repeated once.

Shapes: T frames, H height, W width.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import Colorspace

from streamgen.frames.clip import Clip, Frames, WriteError, reason
from streamgen.frames.colour import BT709, LIMITED
from streamgen.frames.formats import FORMATS
from streamgen.frames.muxer import MuxWriter
from streamgen.frames.read_errors import NoVideoError

_FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "flush_packets": "1"}
_SECONDS_PER_FRAGMENT = 1


class Mp4Writer(MuxWriter):
    """An mp4 recording; in a pipe it stays fragmented, since a pipe cannot be rewritten."""

    def __init__(self, target: Path | BinaryIO, clip: Clip) -> None:
        form = FORMATS["mp4"]
        self._pad = padding(clip, form.pix_fmt(clip.pix_fmt))
        pad_height, pad_width = self._pad
        padded = replace(clip, width=clip.width + pad_width, height=clip.height + pad_height)
        super().__init__(target, form, padded, options=_FRAGMENTED, matrix=Colorspace.ITU709)
        self._path = target if isinstance(target, Path) else None
        self._size = clip
        context = self.stream.codec_context
        context.color_range = LIMITED
        context.color_primaries = context.color_trc = context.colorspace = BT709
        context.gop_size = max(1, round(clip.rate * _SECONDS_PER_FRAGMENT))
        context.options = {"preset": "veryfast", "crf": "16", "rc-lookahead": "5", "bf": "0"}

    def write(self, frames: Frames) -> None:
        """Append uint8 [T, H, W, 3]."""
        self._size.check(frames)
        height, width = self._pad
        if height or width:
            frames = np.pad(frames, ((0, 0), (0, height), (0, width), (0, 0)), mode="edge")
        super().write(frames)

    def close(self) -> None:
        """Finish the recording and move its index to the front."""
        if self._closed:
            return
        super().close()
        if self._path is not None and self._path.is_file() and self._frames:
            move_index_to_front(self._path)


def padding(clip: Clip, pix_fmt: str) -> tuple[int, int]:
    """Rows and columns that H.264 needs added: to even numbers where chroma is halved."""
    return (clip.height % 2 if pix_fmt == "yuv420p" else 0), (clip.width % 2 if pix_fmt != "yuv444p" else 0)


def describe(path: Path, metadata: Mapping[str, str]) -> None:
    """Say more of a recording that is complete, such as what came only after its first frame."""
    move_index_to_front(path, metadata)


def description(path: Path) -> dict[str, str]:
    """What an mp4 says of itself; ReadError where there is none."""
    try:
        with av.open(str(path), format="mp4") as container:
            return dict(container.metadata)
    except (FFmpegError, OSError) as error:
        raise NoVideoError("This is no mp4 that can be read: it is damaged, or something else.") from error


def move_index_to_front(path: Path, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Copy the packets into an ordinary fast-start file and put it in the recording's place."""
    part = path.with_name(f".{path.name}.part")
    try:
        with (
            av.open(str(path)) as source,
            av.open(str(part), "w", format="mp4", options={"movflags": "faststart"}) as out,
        ):
            out.metadata.update({**source.metadata, **more})
            video = source.streams.video[0]
            copy = out.add_stream_from_template(video)
            for packet in source.demux(video):
                if packet.dts is not None:
                    packet.stream = copy
                    out.mux(packet)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise WriteError(
            f"{path} is complete and plays, but its index could not be moved to the front: {reason(error)}."
        ) from error
