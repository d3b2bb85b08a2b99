"""What a viewer sees next: the newest picture that is due. A slow viewer misses pictures, never queues them.

Shapes: H height, W width.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Picture:
    """One moment: an image [H, W, 3] for each branch, what the page should know of it, and when it is due."""

    images: tuple[NDArray[np.uint8], ...]
    facts: dict[str, Any] = field(default_factory=dict)
    due: float = 0.0  # on the clock of the screen
    since: float | None = None  # when the keys behind it were pressed, on time.perf_counter


class Screen:
    """The worker puts whole chunks of pictures, the socket takes one at a time; both may come at any time."""

    def __init__(self, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.shown = self.dropped = 0
        self._clock = clock
        self._on_change = on_change
        self._coming: deque[Picture] = deque()
        self._unseen: float | None = None  # when the viewer should have looked first, since they last did
        self._lock = threading.Lock()

    def put(self, pictures: Sequence[Picture]) -> None:
        """Add a chunk. What is overdue gives way to it, except the newest of that."""
        with self._lock:
            self._forget_overdue()
            self._coming.extend(pictures)
            if self._unseen is None and pictures:
                self._unseen = max(pictures[0].due, self._clock())
        self._on_change()

    def take(self) -> tuple[Picture | None, float | None]:
        """The newest picture that is due; or None, and the seconds until one will be (None = none there)."""
        with self._lock:
            self._forget_overdue()
            if not self._coming:
                return None, None
            wait = self._coming[0].due - self._clock()
            if wait > 0:
                return None, wait
            self.shown += 1
            taken = self._coming.popleft()
            self._unseen = self._coming[0].due if self._coming else None
            return taken, None

    def clear(self) -> None:
        """Forget what was not shown: it never happened."""
        with self._lock:
            self._coming.clear()
            self._unseen = None

    @property
    def waiting(self) -> int:
        """Pictures that nobody took yet."""
        return len(self._coming)

    @property
    def overdue(self) -> float:
        """Seconds for which pictures have been waiting for a viewer who takes none."""
        with self._lock:
            return 0.0 if self._unseen is None else max(0.0, self._clock() - self._unseen)

    def _forget_overdue(self) -> None:
        now = self._clock()
        while len(self._coming) > 1 and self._coming[1].due <= now:
            self._coming.popleft()
            self.dropped += 1
