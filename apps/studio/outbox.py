"""Words for one browser: every receipt and refusal, and only the newest of what repeats."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Note = dict[str, Any]
MOST = 256  # words that may wait; who lets more come in than they read is cut off


class Outbox:
    """Filled by the worker and the socket, emptied by the socket."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.overrun = False
        self._on_change = on_change
        self._notes: deque[Note] = deque()
        self._newest: dict[str, Note] = {}
        self._lock = threading.Lock()

    def say(self, kind: str, **facts: Any) -> None:
        """Tell it once, in order."""
        with self._lock:
            self.overrun = self.overrun or len(self._notes) >= MOST
            if not self.overrun:
                self._notes.append({"say": kind, **facts})
        self._on_change()

    def show(self, kind: str, **facts: Any) -> None:
        """Replace what was said of this kind and not read yet."""
        with self._lock:
            self._newest[kind] = {"say": kind, **facts}
        self._on_change()

    def take(self) -> list[Note]:
        """Everything that waits."""
        with self._lock:
            notes = [*self._notes, *self._newest.values()]
            self._notes.clear()
            self._newest.clear()
        return notes
