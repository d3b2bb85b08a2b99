"""The buffer between the reading thread and its consumer: bounded, or the newest item only."""

import threading
from collections.abc import Generator

import pytest

from streamgen.frames.feed import Feed, SilenceError


class Counter:
    """Numbers, and an event for each that was asked for."""

    def __init__(self, count: int) -> None:
        self.asked = [threading.Event() for _ in range(count + 1)]
        self._count = count

    def __call__(self, feed: Feed[int]) -> Generator[int, None, None]:
        for number in range(self._count):
            self.asked[number].set()
            yield number
        self.asked[self._count].set()


def test_a_full_buffer_makes_the_reader_wait() -> None:
    counter = Counter(20)
    feed = Feed(counter, capacity=3, latest=False, patience=None)
    assert counter.asked[3].wait(5)  # three lie in the buffer and the fourth waits for room
    assert not counter.asked[4].wait(0.1)
    assert [feed.take() for _ in range(20)] == list(range(20))
    assert feed.dropped == 0 and not feed.peek()
    with pytest.raises(StopIteration):
        feed.take()


def test_a_slot_of_one_holds_the_newest_and_counts_the_others() -> None:
    counter = Counter(20)
    feed = Feed(counter, capacity=3, latest=True, patience=None)
    assert counter.asked[20].wait(5)
    assert (feed.take(), feed.dropped, feed.peek()) == (19, 19, False)


def test_somebody_with_other_things_to_do_looks_whether_something_came() -> None:
    go = threading.Event()

    def waits(feed: Feed[int]) -> Generator[int, None, None]:
        go.wait(20)
        yield 1

    feed = Feed(waits, capacity=1, latest=False, patience=None)
    assert not feed.settled(0.02)
    go.set()
    assert feed.settled(20) and feed.take() == 1
    assert feed.settled(20) and not feed.peek()


def test_what_the_reader_raises_comes_after_its_items() -> None:
    def fails(feed: Feed[int]) -> Generator[int, None, None]:
        yield 1
        raise OSError("unplugged")

    feed = Feed(fails, capacity=3, latest=False, patience=None)
    assert feed.take() == 1
    with pytest.raises(OSError, match="unplugged"):
        feed.take()


def test_a_reader_that_gives_no_sign_of_life_is_not_waited_for() -> None:
    silent = threading.Event()

    def hangs(feed: Feed[int]) -> Generator[int, None, None]:
        silent.wait(20)
        yield 1

    feed = Feed(hangs, capacity=1, latest=False, patience=0.2)
    with pytest.raises(SilenceError):
        feed.take()
    silent.set()


def test_a_slow_reader_that_shows_life_is_waited_for() -> None:
    def slow(feed: Feed[int]) -> Generator[int, None, None]:
        for _ in range(10):
            feed.pause(0.05)
        yield 1

    assert Feed(slow, capacity=1, latest=False, patience=0.3).take() == 1
