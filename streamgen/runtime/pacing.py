"""When to compute a chunk and when to show it: live, smooth or file.

live: at most one chunk ahead of the viewer, and a chunk that was not fetched gives way to a newer one.
smooth: a media clock, behind a buffer of some chunks; each chunk is shown when its first frame is due.
file: as fast as it goes; nothing waits and nothing is dropped.
After a stall the clock is anchored anew: what was late is not made up for in a rush.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, Literal, TypeVar, get_args

from streamgen.errors import UsageError

Policy = Literal["live", "smooth", "file"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
BUFFER = 2  # chunks that `smooth` keeps ahead
Item = TypeVar("Item")


class Pacer:
    """Media time against a clock. Ask `ready` before a chunk is made, `due` when it is there."""

    def __init__(
        self,
        policy: Policy,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if policy not in POLICIES:
            raise UsageError(f"There is no pace {policy!r}; choose one of {', '.join(POLICIES)}.")
        self.policy = policy
        self.stalls = 0
        self._clock = clock
        self._sleep = sleep
        self._ahead = {"live": 1, "smooth": BUFFER, "file": 0}[policy]
        self._begun = False
        self._ends: list[float] = []  # when each chunk that is not yet shown to its end will be

    @property
    def lead(self) -> float:
        """Seconds of video that are made and not yet shown."""
        return max(0.0, self._ends[-1] - self._clock()) if self._ends else 0.0

    def ready(self) -> None:
        """Wait until another chunk may be made without running too far ahead of the viewer."""
        if self.policy == "file":
            return
        self._forget_shown()
        while len(self._ends) > self._ahead:
            self._sleep(max(0.0, self._ends[-self._ahead - 1] - self._clock()))
            self._forget_shown()

    def due(self, seconds: float) -> float:
        """The time at which the first frame of a chunk of so many seconds is to be shown."""
        now = self._clock()
        if self.policy == "file":
            return now
        self._forget_shown()
        if self._ends:
            start = self._ends[-1]
        else:
            self.stalls += self._begun
            start = now + (seconds if self.policy == "smooth" else 0.0)
        self._begun = True
        self._ends.append(start + seconds)
        return start

    def show(self, seconds: float) -> None:
        """Wait until a chunk that was just made is due."""
        self._sleep(max(0.0, self.due(seconds) - self._clock()))

    def _forget_shown(self) -> None:
        now = self._clock()
        self._ends = [end for end in self._ends if end > now]


class Latest(Generic[Item]):
    """An outlet that holds one item: whoever is slow gets the newest, and `dropped` counts the others."""

    def __init__(self) -> None:
        self.dropped = 0
        self._items: list[Item] = []
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: Item) -> None:
        """Offer an item; one that nobody took gives way."""
        with self._changed:
            self.dropped += len(self._items)
            self._items = [item]
            self._changed.notify()

    def take(self) -> Item | None:
        """Wait for the newest item; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closed)
            return self._items.pop() if self._items else None

    def close(self) -> None:
        """No more items will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
