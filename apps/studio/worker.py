"""One thread does all work on models and caches, and takes turns among those who want some.

Pools and arenas are not made for several threads, and a chunk is short: so sessions take turns, chunk by
chunk, and whoever was served longest ago comes first. Errands (close this, count that) come before turns.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Runner(Protocol):
    """Somebody who wants turns. All of it runs on the worker's thread."""

    def due(self, now: float) -> float | None:
        """When the next turn is wanted; None = not before `Worker.wake`. Quick, and never raises."""

    def turn(self) -> None:
        """One piece of work, such as a chunk."""

    def fail(self, error: Exception) -> None:
        """A turn raised this."""

    def close(self) -> None:
        """Give everything back."""


class Worker:
    """Start it, let runners `join` and `leave`, `call` for a look at what only this thread may touch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._runners: OrderedDict[Runner, None] = OrderedDict()  # served longest ago first
        self._errands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="studio worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close every runner and end the thread after the turn that is running."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def join(self, runner: Runner) -> None:
        """Give turns to this one as well; the newest is served first, to answer at once."""
        with self._changed:
            self._runners[runner] = None
            self._runners.move_to_end(runner, last=False)
            self._changed.notify()

    def leave(self, runner: Runner) -> "Future[None]":
        """Close it before anybody's next turn."""

        def close() -> None:
            with self._changed:
                self._runners.pop(runner, None)
            runner.close()

        return self.call(close)

    def call(self, work: Callable[[], Result]) -> "Future[Result]":
        """Do this on the worker's thread before the next turn."""
        future: Future[Result] = Future()
        with self._changed:
            if self._stopped:
                future.set_exception(RuntimeError("The studio is closing."))
                return future
            self._errands.append((work, future))
            self._changed.notify()
        return future

    def wake(self) -> None:
        """Something came that a runner was waiting for."""
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
        for runner in self._runners:
            runner.close()

    def _next(self) -> Callable[[], None] | None:
        """Wait for an errand or a turn; None at the end."""
        with self._changed:
            while not (self._stopped and not self._errands):
                if self._errands:
                    errand = self._errands.popleft()
                    return lambda: _do(*errand)
                now = self._clock()
                dues = {runner: at for runner in self._runners if (at := runner.due(now)) is not None}
                for runner, at in dues.items():
                    if at <= now:
                        self._runners.move_to_end(runner)
                        return lambda runner=runner: _turn(runner)
                self._changed.wait(min(dues.values()) - now if dues else None)
        return None


def _do(work: Callable[[], Any], future: "Future[Any]") -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def _turn(runner: Runner) -> None:
    try:
        runner.turn()
    except Exception as error:
        runner.fail(error)
