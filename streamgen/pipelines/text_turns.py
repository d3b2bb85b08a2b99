"""The streams that are open on one pipeline: they take turns step by step, and make room for each other."""

from threading import RLock
from typing import Protocol
from weakref import ref


class Stream(Protocol):
    """Whoever holds pages of texts."""

    def give_way(self) -> bool:
        """Leave the pages of the group that came last, all of them; False where none holds any."""
        ...


class Turns:
    """Enter `turn` for a step: no other stream computes, comes, goes or is parked meanwhile."""

    def __init__(self) -> None:
        self.turn = RLock()
        self._streams: list[ref[Stream]] = []  # in the order in which they were opened

    def join(self, stream: Stream) -> None:
        with self.turn:
            self._streams = [known for known in self._streams if known() is not None] + [ref(stream)]

    def make_room(self, asking: Stream) -> bool:
        """Let another stream give way, the latest first; False where no other holds a page."""
        others = (known() for known in reversed(self._streams))
        return any(other.give_way() for other in others if other is not None and other is not asking)
