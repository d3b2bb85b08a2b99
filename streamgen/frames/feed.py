"""A thread that reads ahead into a bounded buffer, so that decoding overlaps with whoever looks at frames.

A full buffer makes the thread wait, or, for live sources, lets the oldest item go and counts it. The
consumer never waits inside FFmpeg, so Ctrl-C reaches it whatever the source does.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FeedClosedError(BaseException):
    """Ends the reading thread when its consumer has left; nobody else sees it."""


class SilenceError(Exception):
    """Nothing at all was heard of the source for too long."""


class Feed(Generic[Item]):
    """Items of an iterator that is made and run in a thread of its own."""

    def __init__(self, make: "Make[Item]", capacity: int, latest: bool, patience: float | None) -> None:
        self.dropped = 0
        self._items: deque[Item] = deque()
        self.latest = latest  # the thread may still find out that its source is live
        self._capacity, self._patience = capacity, patience
        self._changed = threading.Condition()
        self._closed = self._ended = False
        self._error: Exception | None = None
        self._heard = time.monotonic()
        threading.Thread(target=self._run, args=(make,), name="streamgen-reader", daemon=True).start()

    def peek(self) -> bool:
        """Wait for an item without taking it; False at the end. Raises what the iterator raised."""
        with self._changed:
            while not self._items and not self._ended:
                self._wait()
            if self._items:
                return True
            if self._error is not None:
                raise self._error
            return False

    def settled(self, seconds: float) -> bool:
        """Whether, within these seconds, an item, the end or an error is there."""
        with self._changed:
            if not self._items and not self._ended:
                self._wait(seconds)
            return bool(self._items) or self._ended

    def take(self) -> Item:
        """The oldest item; StopIteration at the end."""
        while self.peek():
            with self._changed:
                if self._items:
                    self._changed.notify_all()
                    return self._items.popleft()
        raise StopIteration

    def close(self) -> None:
        """Let the thread go; it ends as soon as it comes back from where it is."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._ended = True
            self._error = None  # its traceback knows whoever read, and would keep them
            self._changed.notify_all()

    def beat(self) -> None:
        """For the thread: the source is alive."""
        self._heard = time.monotonic()
        if self._closed:
            raise FeedClosedError

    def pause(self, seconds: float) -> None:
        """For the thread: wait, unless the consumer leaves."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)
        self.beat()

    def _wait(self, seconds: float | None = None) -> None:
        self._changed.wait(self._patience if seconds is None else seconds)
        if self._patience is not None and time.monotonic() - self._heard > self._patience:
            raise SilenceError

    def _put(self, item: Item) -> None:
        with self._changed:
            if self.latest:
                while self._items:
                    self._items.popleft()
                    self.dropped += 1
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._capacity)
            if self._closed:
                raise FeedClosedError
            self._items.append(item)
            self._changed.notify_all()
        self.beat()

    def _run(self, make: "Make[Item]") -> None:
        error: Exception | None = None
        items = make(self)
        try:
            for item in items:
                self._put(item)
        except FeedClosedError:
            pass
        except Exception as raised:  # travels to the consumer, which raises it
            error = raised
        finally:
            items.close()
        with self._changed:
            self._error, self._ended = error, True
            self._changed.notify_all()


Make = Callable[[Feed[Item]], Generator[Item, None, None]]
