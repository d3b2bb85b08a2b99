"""From presentation time stamps to seconds since the beginning, exactly, whatever the stamps do.

A stamp is exact (a fraction). Where there is none, a recording goes on by its nominal rate and a live
source by the clock. A stamp that jumps back (joined recordings) goes on one frame after the last one.
"""

import time
from collections.abc import Callable
from fractions import Fraction

_TICKS = 1_000_000


class Timeline:
    """The times of one reading, across openings of its source."""

    def __init__(self, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.last: Fraction | None = None  # the time of the last frame
        self.live = live
        self._clock = clock
        self._origin: Fraction | None = None  # the stamp of time 0
        self._arrived = 0.0
        self._resumes = False

    def begin(self, first_stamp: Fraction | None) -> None:
        """A source was opened whose streams begin at this stamp; None where that is not known."""
        if not self._resumes:
            self._origin = first_stamp

    def resume(self) -> None:
        """The source was lost: the next frame is as much later than the last as the clock says."""
        self._resumes = True

    def replay(self) -> None:
        """The source is read again from an earlier place."""
        self.last = None

    def time(self, stamp: Fraction | None, step: Fraction) -> Fraction:
        """Seconds since the beginning; `step` is the nominal time between two frames."""
        now = self._clock()
        if self.last is None:
            found = Fraction(0) if stamp is None or self._origin is None else stamp - self._origin
        elif stamp is None or self._resumes:
            found = self.last + (self._since(now) if self.live else step)
        else:
            found = stamp - (self._origin or 0)
            if found < self.last:
                found = self.last + step
        if stamp is not None:
            self._origin = stamp - found
        self.last, self._arrived, self._resumes = found, now, False
        return found

    def _since(self, now: float) -> Fraction:
        return Fraction(round((now - self._arrived) * _TICKS), _TICKS)
