"""Which frames are taken when fewer are wanted than there are.

The times asked for are k/fps, counted from the beginning of the video. For each of them the first frame
that is shown at or after it is taken, if that frame comes before the next such time; a frame is taken once.
So nothing is invented, `fps` is an upper limit, no frame has to wait for the next one, and a part of a
video gives the same frames as the whole. Times are compared to the millisecond: many containers round them.
"""

import math
from fractions import Fraction

from streamgen.errors import UsageError

ROUNDING = Fraction(1, 1000)
FASTEST = 1000


class Sampler:
    """Says of each frame, in their order, whether it is taken."""

    def __init__(self, fps: float | None, start: Fraction = Fraction(0)) -> None:
        if fps is not None and not (math.isfinite(fps) and 0 < fps <= FASTEST):
            raise UsageError(
                f"{fps} frames a second cannot be taken; give more than 0 and at most {FASTEST}, "
                "or nothing for all."
            )
        self._fps = None if fps is None else Fraction(fps).limit_denominator(100_000)
        self._start = start
        self._next = 0 if self._fps is None else math.floor((start + ROUNDING) * self._fps)  # k

    @property
    def due(self) -> Fraction:
        """The next time asked for, from which on frames have to be seen."""
        return self._start if self._fps is None else self._next / self._fps

    def takes(self, time: Fraction) -> bool:
        """Whether the frame shown at this time stands for one of the times asked for."""
        if self._fps is None:
            return time >= self._start
        reached = math.floor((time + ROUNDING) * self._fps)
        if reached < self._next:
            return False
        self._next = reached + 1
        return time >= self._start
