"""Frames through one PyAV container: y4m, raw, NUT and MJPEG, to a file or a pipe; mp4 builds on it.

Shapes: T frames, H height, W width.
"""

from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

import av
from av.video.reformatter import Colorspace
from av.video.stream import VideoStream

from streamgen.frames.clip import Clip, Frames, WriteError, reason
from streamgen.frames.colour import FULL, to_frame, untagged_matrix
from streamgen.frames.formats import Format


class _Pipe:
    """A stream that remembers its first failure: errors do not travel well through a C callback."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest and self.error is None:
            try:
                written = self._stream.write(rest)
                self._stream.flush()
            except OSError as error:
                self.error = error
            else:
                rest = rest[written:]  # a raw pipe may take less than it was given
        return len(data)


class MuxWriter:
    """Writes a clip into one container; BrokenPipeError passes through, it is not an error of ours."""

    def __init__(
        self,
        target: Path | BinaryIO,
        form: Format,
        clip: Clip,
        options: dict[str, str] | None = None,
        matrix: Colorspace | None = None,
    ) -> None:
        self.clip = clip
        self.pix_fmt = form.pix_fmt(clip.pix_fmt)
        self.matrix = matrix or untagged_matrix(clip.height)
        self._name = str(target) if isinstance(target, Path) else "standard output"
        self._pipe = None if isinstance(target, Path) else _Pipe(target)
        self._frames = 0
        self._closed = False
        self._container = av.open(self._pipe or str(target), "w", format=form.muxer, options=options or {})
        self._container.metadata.update(clip.metadata)
        self.stream = cast(VideoStream, self._container.add_stream(form.codec, rate=clip.rate))
        self.stream.width, self.stream.height = clip.width, clip.height
        self.stream.pix_fmt = self.pix_fmt
        self.stream.codec_context.time_base = 1 / clip.rate
        if self.pix_fmt.startswith("yuvj"):
            self.stream.codec_context.color_range = FULL

    def write(self, frames: Frames) -> None:
        """Append uint8 [T, H, W, 3]."""
        self.clip.check(frames)
        for rgb in frames:
            frame = to_frame(rgb, self.pix_fmt, self.matrix)
            frame.pts, frame.time_base = self._frames, 1 / self.clip.rate
            self._mux(frame)
            self._frames += 1

    def close(self) -> None:
        """Flush the encoder and finish the container."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._frames and not (self._pipe and self._pipe.error):
                self._mux(None)
        finally:
            self._finish()

    def _mux(self, frame: av.VideoFrame | None) -> None:
        try:
            self._container.start_encoding()  # opens the file now, not when the encoder lets go of a packet
            self._container.mux(self.stream.encode(frame))
            self._raise_of_pipe()
        except BrokenPipeError:
            raise
        except OSError as error:
            done = f"writing stopped after {self._frames} frames"
            raise WriteError(f"{self._name}: {done}: {reason(error)}.") from error

    def _raise_of_pipe(self) -> None:
        if self._pipe is not None and self._pipe.error is not None:
            raise self._pipe.error

    def _finish(self) -> None:
        try:
            self._container.close()
        except OSError as error:
            raise WriteError(f"{self._name} could not be finished: {reason(error)}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
