"""Video in: `read` gives the frames of a file, a pipe, a server or a camera, with their times.

Shapes: H height, W width.
"""

import math
import os
import weakref
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from streamgen.errors import UsageError
from streamgen.frames.clip import Frames
from streamgen.frames.decode import Opening
from streamgen.frames.feed import Feed, SilenceError
from streamgen.frames.read_errors import SourceLostError
from streamgen.frames.sampling import Sampler
from streamgen.frames.source import Source, source_of
from streamgen.frames.still import is_still, pictures
from streamgen.frames.tally import Tally
from streamgen.frames.timeline import Timeline
from streamgen.frames.upright import picture_of

TIMEOUT = 10.0  # seconds that a server or a camera may be silent
TRIES = 3  # openings in a row, without a frame, after a source was lost
AHEAD = 4  # frames that are read ahead of the consumer
_FIRST_WAIT = 0.5  # seconds before the first of these tries; each further one waits twice as long
_GRACE = 5.0  # on top of the timeout, for what FFmpeg itself cannot time, such as looking a name up


@dataclass(frozen=True, eq=False)
class Frame:
    """A picture, uint8 [H, W, 3], and the seconds since the beginning at which it is shown."""

    picture: Frames
    time: float


@dataclass(frozen=True)
class _Wish:
    source: Source
    sampler: Sampler
    starts_late: bool
    end: Fraction | None
    timeout: float
    latest: bool | None
    skip_damage: bool | None


class Reader(Iterator[Frame]):
    """The frames of a source, read ahead in a thread. Leaving the block, or `close`, lets the source go."""

    def __init__(self, wish: _Wish) -> None:
        self.source = wish.source
        self.tally = Tally()
        patience = wish.timeout + _GRACE if wish.source.may_return else None
        tally = self.tally
        self._feed: Feed[Frame] = Feed(
            lambda feed: _frames(wish, tally, feed), AHEAD, bool(wish.latest), patience
        )
        self._timeout = wish.timeout
        weakref.finalize(self, self._feed.close)

    @property
    def dropped(self) -> int:
        """Frames of a live source that gave way to newer ones because nobody took them in time."""
        return self._feed.dropped

    @property
    def live(self) -> bool:
        """Whether the source goes on whether somebody reads or not; known once it is open."""
        return self.source.live or self.tally.live

    @property
    def duration(self) -> float | None:
        """Seconds, as the source says them once it is open; None where it does not."""
        length = self.tally.length
        return None if length is None else float(length)

    def ready(self) -> Self:
        """Wait for the first frame; what is wrong with the source is raised here. Nothing is taken."""
        try:
            self._feed.peek()
        except SilenceError as error:
            raise self._silence() from error
        return self

    def waiting(self, seconds: float) -> bool:
        """Whether, within these seconds, there is something to take: a frame, the end, or an error."""
        try:
            return self._feed.settled(seconds)
        except SilenceError as error:
            raise self._silence() from error

    def close(self) -> None:
        """Let the source go; further frames are not given."""
        self._feed.close()

    def __next__(self) -> Frame:
        try:
            return self._feed.take()
        except SilenceError as error:
            raise self._silence() from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _silence(self) -> SourceLostError:
        frames, seconds = self.tally.decoded, self.tally.seconds
        words = f"{self.source.name} did not answer for {self._timeout + _GRACE:g} s"
        self.close()
        return SourceLostError(f"{words}; {frames} frames came before that.", frames, seconds)


def read(
    source: str | os.PathLike[str] | BinaryIO | Source,
    fps: float | None = None,
    start: float | None = None,
    end: float | None = None,
    latest: bool | None = None,
    timeout: float = TIMEOUT,
    skip_damage: bool | None = None,
) -> Reader:
    """The frames of a source, upright, in RGB, with the times at which they are shown.

    source: a path, `-` for standard input, an open binary file, a URL (rtsp, http, ...), `cam:0` or
    `/dev/video0`, `lavfi:GRAPH`, a picture, or a `Source`. fps: at most so many a second (see `sampling`);
    None takes all. start, end: seconds; a frame at `end` is not given. latest: keep only the newest frame
    that was not taken, and count the others; None means: where the source is live. timeout: seconds that a
    server or a camera may be silent. skip_damage: go on behind broken data; None means: where the source is
    live.

    Raises (here or while reading): UsageError for arguments, NoVideoError where there is no video,
    DamagedVideoError after the good frames, SourceLostError for servers and cameras.
    """
    first, last = _span(start, end)
    if not (math.isfinite(timeout) and timeout > 0):
        raise UsageError(f"A timeout of {timeout} s lets nothing answer; give more than 0.")
    sampler = Sampler(fps, first)
    found = source_of(source)
    return Reader(_Wish(found, sampler, first > 0, last, timeout, latest, skip_damage))


def _span(start: float | None, end: float | None) -> tuple[Fraction, Fraction | None]:
    if start is not None and not (math.isfinite(start) and start >= 0):
        raise UsageError(f"A video cannot be read from {start} s on; give 0 or more.")
    if end is not None and not (math.isfinite(end) and end > (start or 0)):
        raise UsageError(f"Nothing lies between {start or 0:g} s and {end} s; give a later end.")
    return _exact(start or 0), None if end is None else _exact(end)


def _exact(seconds: float) -> Fraction:
    """4.4 is 22/5 here, not the nearest float."""
    return Fraction(seconds).limit_denominator(1_000_000)


def _frames(wish: _Wish, tally: Tally, feed: Feed[Frame]) -> Generator[Frame, None, None]:
    """What the reading thread runs: frames that are wanted, as pictures."""
    source = wish.source
    if source.kind == "file" and is_still(Path(source.name)):
        for time, picture in pictures(Path(source.name)):
            tally.decoded, tally.time = tally.decoded + 1, time
            if wish.sampler.takes(time) and (wish.end is None or time < wish.end):
                yield Frame(picture, float(time))
        return
    timeline, tries = Timeline(source.live), 0
    while True:
        seen = tally.decoded
        try:
            with Opening(source, wish.timeout, timeline, tally, wish.skip_damage) as opening:
                feed.latest = opening.live if wish.latest is None else wish.latest
                yield from _wanted(wish, opening, timeline, tally, feed)
                if not opening.live or tally.length is not None or _past(wish.end, timeline.last):
                    return
            raise SourceLostError(f"{source.name} ended its stream.", tally.decoded, tally.seconds)
        except SourceLostError as error:
            tries = tries + 1 if tally.decoded == seen else 1
            if tally.decoded == 0 or tries > TRIES:
                raise _given_up(error, tries - 1) from error
            if timeline.live:
                timeline.resume()
        feed.pause(_FIRST_WAIT * 2 ** (tries - 1))
        tally.reconnects += 1


def _past(end: Fraction | None, last: Fraction | None) -> bool:
    return end is not None and last is not None and last >= end


def _wanted(
    wish: _Wish, opening: Opening, timeline: Timeline, tally: Tally, feed: Feed[Frame]
) -> Iterator[Frame]:
    tally.length = opening.length
    again = None if opening.live else timeline.last
    if again is not None:
        opening.again(again)
    elif wish.starts_late and wish.source.kind != "pipe":
        opening.seek(wish.sampler.due)
    for time, frame in opening.frames(feed.beat):
        if wish.end is not None and time >= wish.end:
            return
        if wish.sampler.takes(time):
            yield Frame(picture_of(frame), float(time))


def _given_up(error: SourceLostError, tries: int) -> SourceLostError:
    if not tries:
        return error
    words = f"{error} It was tried {tries} times to open it again."
    return SourceLostError(words, error.frames, error.time)
