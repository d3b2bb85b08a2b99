"""When the next chunk is to be made, and when its frames are to be shown: live, at most one chunk ahead.

A machine that is too slow, or shared, plays slower at an even pace instead of stopping after every chunk.
After a stall the clock is anchored anew; nothing is played fast to catch up.
"""

import time
from collections import deque
from collections.abc import Callable

RECENT = 4  # chunks over which the time that one needs is taken


class Tempo:
    """Ask `ready` before a chunk is made, `place` when it is done."""

    def __init__(self, media: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._media = media  # seconds that a chunk lasts in the video
        self._end = self._done = clock()  # when everything made is shown; when the last chunk was done
        self._needed: deque[float] = deque(maxlen=RECENT)

    @property
    def lead(self) -> float:
        """Seconds of video that are made and not yet shown."""
        return max(0.0, self._end - self._clock())

    @property
    def seconds(self) -> float:
        """How long a chunk is shown: as long as it lasts, or as long as the next one needs."""
        needed = sum(self._needed) / len(self._needed) if self._needed else 0.0
        return max(self._media, needed)

    def ready(self) -> float:
        """The time from which the next chunk may be made."""
        return self._end - self.seconds

    def place(self, media: float) -> tuple[float, float]:
        """A chunk of so many seconds is done: when it is shown, and for how long."""
        now = self._clock()
        self._needed.append(now - max(self.ready(), self._done))
        self._media, self._done = media, now
        start, seconds = max(now, self._end), self.seconds
        self._end = start + seconds
        return start, seconds

    def anchor(self) -> None:
        """Begin again from now: after a pause, or when what was made is not to be shown."""
        self._end = self._done = self._clock()
