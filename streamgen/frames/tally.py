"""What is counted while a source is read; the reading thread writes, anyone may look."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass
class Tally:
    """Counts of one reading."""

    decoded: int = 0  # good frames, taken or not
    damaged: int = 0  # places where data were broken
    reconnects: int = 0
    time: Fraction | None = None  # of the last good frame
    length: Fraction | None = None  # as the header says
    live: bool = False  # it goes on whether somebody reads or not

    @property
    def seconds(self) -> float | None:
        return None if self.time is None else float(self.time)
