"""One opening of a source: packets in, frames with exact times out, damage found and named."""

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

import av
from av.container import InputContainer
from av.error import EOFError as EndError
from av.error import FFmpegError, InvalidDataError
from av.stream import Disposition
from av.video.stream import VideoStream

from streamgen.frames.complaints import Complaints
from streamgen.frames.read_errors import ReadError
from streamgen.frames.source import Source
from streamgen.frames.tally import Tally
from streamgen.frames.timeline import Timeline

TimedFrame = tuple[Fraction, av.VideoFrame]

_INDEXED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi")  # seeking finds the key frame before a time
_PROMISING = _INDEXED[:2]  # their headers say how long the video is
_SLACK = Fraction(1, 2)  # seconds by which an undamaged video may be shorter than its header says
_PATIENCE = 10  # seconds without a key frame after damage; some cameras never send another
_UNTIMED = "mpjpeg"  # a web camera; its demuxer invents 25 frames a second


class Opening:
    """A source, opened; leaving the block closes it."""

    def __init__(
        self, source: Source, timeout: float, timeline: Timeline, tally: Tally, skip_damage: bool | None
    ) -> None:
        self._source, self._timeline, self._tally = source, timeline, tally
        self._complaints = Complaints(source, timeout, tally)
        self._container = self._open(timeout)
        try:
            self._stream = self._video()
        except ReadError:
            self._container.close()
            raise
        self._form = self._container.format.name
        self.live = timeline.live = tally.live = source.live or self._form == _UNTIMED
        self._skip_damage = self.live if skip_damage is None else skip_damage
        duration = self._container.duration
        self.length = None if duration is None else Fraction(duration, av.time_base)
        self._healing = False  # since damage at this stamp, until a key frame comes
        self._broken_at: int | None = None
        self._after: Fraction | None = None
        self._ended = Fraction(0)  # the latest end of a packet of any stream, as a stamp
        timeline.begin(self._first_stamp())

    def again(self, time: Fraction) -> None:
        """Go on where an earlier opening was lost: behind the frame of this time."""
        self._after = time
        self._timeline.replay()
        self.seek(time)

    def seek(self, time: Fraction) -> None:
        """Go to the last key frame at or before a time, where container and place allow it; else stay."""
        first = self._first_stamp()
        if first is None or self._form not in _INDEXED:
            return
        stamp = (first + time) / self._time_base
        with suppress(FFmpegError):  # a server that gives no parts; the frames before are passed over
            self._container.seek(stamp.numerator // stamp.denominator, stream=self._stream)

    def frames(self, beat: Callable[[], None]) -> Iterator[TimedFrame]:
        """Every good frame in the order it is shown; what happened to the source is raised after them."""
        self._stream.codec_context.options = {} if self._skip_damage else {"err_detect": "explode"}
        try:
            for packet in self._container.demux():
                beat()
                self._note_end(packet)
                if packet.stream is self._stream:
                    yield from self._decode(packet)
        except FFmpegError as error:
            yield from self._left_in_decoder()
            raise self._complaints.failure(error) from error
        self._check_end()

    def _decode(self, packet: Any) -> Iterator[TimedFrame]:
        try:
            if packet.is_corrupt and not self._skip_damage:
                raise InvalidDataError(errno.EINVAL, "a part of the data is missing")
            for frame in packet.decode():
                yield from self._timed(frame)
        except EndError:
            return
        except InvalidDataError as error:
            self._tally.damaged += 1
            self._healing, self._broken_at = True, packet.pts
            if not self._skip_damage:
                yield from self._left_in_decoder()
                raise self._damage(packet.pts) from error

    def _left_in_decoder(self) -> Iterator[TimedFrame]:
        """The good frames that the decoder was still putting in order."""
        try:
            for frame in self._stream.codec_context.decode(None):
                yield from self._timed(frame)
        except FFmpegError:
            return

    def _timed(self, frame: av.VideoFrame) -> Iterator[TimedFrame]:
        if not self._good(frame):
            return
        stamp: Fraction | None = None
        if self._form != _UNTIMED and frame.pts is not None and frame.time_base is not None:
            stamp = frame.pts * frame.time_base
        time = self._timeline.time(stamp, self._step)
        if self._after is not None and time <= self._after:
            return
        self._tally.decoded += 1
        self._tally.time = time
        yield time, frame

    def _good(self, frame: av.VideoFrame) -> bool:
        """Decoders paint over what is missing, and every frame up to the next key frame builds on that."""
        if frame.is_corrupt:  # decoded without the key frame before it
            return False
        if not self._healing or frame.pts is None:
            return not self._healing or frame.key_frame
        broken_at = frame.pts if self._broken_at is None else self._broken_at
        if frame.pts < broken_at:  # only waited for its turn
            return True
        waited = (frame.pts - broken_at) * self._time_base > _PATIENCE
        self._healing = not (waited or (frame.key_frame and frame.pts != self._broken_at))
        return not self._healing

    @property
    def _step(self) -> Fraction:
        return 1 / (self._stream.average_rate or self._stream.guessed_rate or Fraction(25))

    @property
    def _time_base(self) -> Fraction:
        base = self._stream.time_base
        assert base is not None, "an opened stream counts time"
        return base

    def _open(self, timeout: float) -> InputContainer:
        source = self._source
        waits = (timeout, timeout) if source.may_return else None
        try:
            return av.open(source.place, "r", format=source.form, options=dict(source.options), timeout=waits)
        except (FFmpegError, OSError) as error:
            raise self._complaints.refusal(error) from error

    def _video(self) -> VideoStream:
        streams = self._container.streams
        moving = [
            stream
            for stream in streams.video
            if not stream.disposition & Disposition.attached_pic and stream.codec_context is not None
        ]
        best = streams.best("video")
        if best in moving and isinstance(best, VideoStream):
            return best
        if moving:
            return moving[0]
        kinds = {"a cover picture" if stream.type == "video" else str(stream.type) for stream in streams}
        words = " and ".join(sorted(kinds)) or "nothing"
        raise self._complaints.none(f"no video that can be decoded, only {words}")

    def _first_stamp(self) -> Fraction | None:
        """The stamp at which the first of the streams begins, which is time 0 for players, too."""
        if self.live or self._stream.start_time is None:
            return None
        streams = (*self._container.streams.video, *self._container.streams.audio)
        return min(
            stream.start_time * stream.time_base
            for stream in streams
            if stream.start_time is not None and stream.time_base is not None
        )

    def _note_end(self, packet: Any) -> None:
        if packet.pts is not None:
            self._ended = max(self._ended, (packet.pts + (packet.duration or 0)) * packet.time_base)

    def _check_end(self) -> None:
        """Containers that say their length are damaged when they end before it."""
        if self._tally.decoded == 0:
            raise self._complaints.none("no frame")
        if self.length is None or self._form not in _PROMISING:
            return
        there = self._ended - (self._first_stamp() or 0)
        if there + _SLACK >= self.length:
            return
        self._tally.damaged += 1
        if not self._skip_damage:
            raise self._complaints.broken(
                f"it ends after {float(there):.2f} s, and its header says {float(self.length):.2f} s"
            )

    def _damage(self, pts: int | None) -> ReadError:
        first = self._first_stamp()
        at = self._tally.time if pts is None or first is None else pts * self._time_base - first
        where = "" if at is None else f" at {float(at):.2f} s"
        return self._complaints.broken(f"the data{where} are broken")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.close()
