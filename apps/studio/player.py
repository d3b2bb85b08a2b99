"""What every kind of session has: orders that wait for a turn, a screen, words for the page, an end.

Shapes: H height, W width.
"""

import secrets
import shutil
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import streamgen as sg
from streamgen.errors import StreamgenWarning, UsageError

from .outbox import Outbox
from .screen import Picture, Screen
from .shelf import Slot, sentence
from .wire import Words

if TYPE_CHECKING:
    from .studio import Studio

MOST_ORDERS = 64  # that may wait for their turn
AWAY = 5.0  # seconds without a look at the screen after which nothing is computed


class Player:
    """One session of one page. `order` may be called from any thread, the rest runs on the worker's."""

    studio: "Studio"  # that opened it: its models and its other sessions

    def __init__(
        self,
        slot: Slot,
        folder: Path,
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.key = secrets.token_urlsafe(12)
        self.slot = slot
        self.folder = folder / self.key  # of its recordings and uploads
        self.files: dict[str, Path] = {}  # recordings that are finished, by name
        self.uploads: dict[str, Path] = {}  # what the page brought, by the name that the server gave it
        self.screen = Screen(on_change, clock)
        self.outbox = Outbox(on_change)
        self.closed = False
        self._clock = clock
        self._orders: deque[Words] = deque()
        self._lock = threading.Lock()

    def order(self, words: Words) -> None:
        """Something to do in the next turn."""
        with self._lock:
            if len(self._orders) >= MOST_ORDERS:
                raise UsageError(
                    f"{MOST_ORDERS} orders are waiting; '{words['do']}' was not taken. Send it again later."
                )
            self._orders.append(words)

    def hear(self, words: Words) -> bool:
        """What needs no turn, such as a key; whether it was that. From any thread."""
        return False

    def see(self, picture: NDArray[np.uint8], seconds: float) -> None:
        """A picture [H, W, 3] of the page's camera, and when it was taken. From any thread."""
        raise UsageError(f"{self.slot.tab!r} watches no camera; 'ask' does.")

    def saw(self, picture: Picture) -> None:
        """The page says that it showed this. From any thread."""

    def due(self, now: float) -> float | None:
        """Orders are due at once, when the model is there; work is due when its kind of session says so."""
        if self._orders:
            return now if self.slot.state in ("ready", "failed") else None
        if self.screen.overdue > AWAY:
            return None
        return self.wants(now)

    def turn(self) -> None:
        """Obey what waits, then compute one piece."""
        while self._orders:
            with self._lock:
                words = self._orders.popleft()
            self._obey(words)
        wanted = self.wants(self._clock())
        if wanted is not None and wanted <= self._clock():
            self.work()

    def fail(self, error: Exception) -> None:
        """Stop, and say why."""
        self.halt()
        self.outbox.say("failed", why=sentence(error))

    def wants(self, now: float) -> float | None:
        """When the next piece of work is due; None = nothing is to be done."""
        raise NotImplementedError

    def work(self) -> None:
        """One piece: a chunk or a scale."""
        raise NotImplementedError

    def obey(self, words: Words) -> None:
        """One order; what cannot be done raises a sentence and changes nothing."""
        raise NotImplementedError

    def halt(self) -> None:
        """No more work until the next order to start."""
        raise NotImplementedError

    def close(self) -> None:
        """Give everything back; the page is told."""
        self.halt()
        self.closed = True
        shutil.rmtree(self.folder, ignore_errors=True)
        self.outbox.show("closed")

    def record(self) -> dict[str, Any]:
        """For the map of the memory."""
        raise NotImplementedError

    def _obey(self, words: Words) -> None:
        try:
            if self.slot.state == "failed":
                raise UsageError(self.slot.trouble)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always", StreamgenWarning)
                self.obey(words)
            for warning in heard:
                if issubclass(warning.category, StreamgenWarning):
                    self.outbox.say("warning", why=sentence(sg.StreamgenError(str(warning.message))))
        except (sg.StreamgenError, ValueError, MemoryError, RuntimeError) as error:
            self.outbox.say("refused", do=words["do"], why=sentence(error))
