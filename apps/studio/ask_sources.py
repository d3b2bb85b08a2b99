"""What an Ask session watches: a file that the page brought, or pictures that come by themselves.

Shapes: T frames, H height, W width.
"""

import threading
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamgen.frames import Frame, ReadError, read
from streamgen.frames.sampling import Sampler
from streamgen.frames.source import Source

MOST = 16  # pictures of a camera or a world that wait; the oldest give way
LOOK = 0.01  # seconds between two looks at whether a file was decoded further
Pixels = NDArray[np.uint8]


class Sights(Protocol):
    """Frames with their times, in order. Only `put` and `end` of some may come from another thread."""

    name: str
    ended: bool  # nothing more will come
    why: str  # it ended early, as a sentence; "" where it did not
    dropped: int

    @property
    def duration(self) -> float | None:
        """Seconds, where they are known."""

    def due(self, now: float) -> float | None:
        """When there may be something to take; None = not before somebody brings it."""

    def peek(self) -> Frame | None:
        """The next frame, which stays; None while there is none."""

    def take(self, frame: Frame) -> None:
        """That one is looked at now."""

    def hold(self) -> None:
        """Nobody looks for a while."""

    def close(self) -> None:
        """Let the source go."""


class FileSights:
    """A video at its own pace, or as fast as it can be looked at."""

    def __init__(self, source: Source, fps: float, paced: bool, clock: Callable[[], float]) -> None:
        self.name = source.name
        self.ended = False
        self.why = ""
        self.dropped = 0
        self._reader = read(source, fps=fps)
        self._paced = paced
        self._clock = clock
        self._next: Frame | None = None
        self._began: float | None = None  # when second 0 was, or would have been

    @property
    def duration(self) -> float | None:
        return self._reader.duration

    def due(self, now: float) -> float | None:
        if self.ended:
            return None
        if self._next is None:
            return now if self._reader.waiting(0) else now + LOOK
        if not self._paced or self._began is None:
            return now
        return self._began + self._next.time

    def peek(self) -> Frame | None:
        if self._next is None and not self.ended and self._reader.waiting(0):
            self._read()
        if self._next is None or (self._paced and self._early(self._next)):
            return None
        return self._next

    def take(self, frame: Frame) -> None:
        self._next = None

    def hold(self) -> None:
        self._began = None  # the clock begins again from the next frame

    def close(self) -> None:
        self.ended = True
        self._reader.close()

    def _read(self) -> None:
        try:
            self._next = next(self._reader, None)
        except ReadError as error:
            self.why = str(error)
        self.ended = self._next is None

    def _early(self, frame: Frame) -> bool:
        now = self._clock()
        if self._began is None:
            self._began = now - frame.time
        return now < self._began + frame.time


class LiveSights:
    """Pictures of a camera or of a running world. Whoever is slow misses some; nothing piles up."""

    def __init__(self, name: str, fps: float) -> None:
        self.name = name
        self.ended = False
        self.why = ""
        self.dropped = 0
        self.duration: float | None = None
        self._sampler = Sampler(fps)
        self._coming: deque[Frame] = deque()
        self._frames = 0  # of a world, since it is watched
        self._lock = threading.Lock()

    def put(self, picture: Pixels, seconds: float) -> None:
        """A picture [H, W, 3] and its time; those that come too fast are passed over."""
        with self._lock:
            if self.ended or not self._sampler.takes(Fraction(seconds)):
                return
            self._coming.append(Frame(picture, seconds))
            if len(self._coming) > MOST:
                self._coming.popleft()
                self.dropped += 1

    def put_chunk(self, frames: Pixels, rate: float) -> None:
        """Frames [T, H, W, 3] of a world; its time is what was seen of it, so an undo takes nothing back."""
        for frame in frames:
            self.put(frame, self._frames / rate)
            self._frames += 1

    def end(self, why: str) -> None:
        """Nothing more comes, and why."""
        self.ended, self.why = True, why

    def due(self, now: float) -> float | None:
        return now if self._coming else None

    def peek(self) -> Frame | None:
        with self._lock:
            return self._coming[0] if self._coming else None

    def take(self, frame: Frame) -> None:
        with self._lock:
            if self._coming and self._coming[0] is frame:  # else it gave way meanwhile
                self._coming.popleft()

    def hold(self) -> None:
        """What comes meanwhile is dropped like anything else."""

    def close(self) -> None:
        self.ended = True
        self._coming.clear()
