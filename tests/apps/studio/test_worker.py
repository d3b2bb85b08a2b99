"""One thread, fair turns, errands first."""

import threading
import time
from concurrent.futures import Future

import pytest

from apps.studio.worker import Worker
from tests.apps.studio.fakes import until


class Counting:
    """Always wants a turn; says in a shared list who had one."""

    def __init__(self, name: str, turns: list[str], seconds: float = 0.0) -> None:
        self.name, self.turns, self.seconds = name, turns, seconds
        self.failure: Exception | None = None
        self.closed_by: str | None = None
        self.breaks = False

    def due(self, now: float) -> float | None:
        return None if self.failure else now

    def turn(self) -> None:
        time.sleep(self.seconds)
        self.turns.append(self.name)
        if self.breaks:
            raise ValueError("it broke")

    def fail(self, error: Exception) -> None:
        self.failure = error

    def close(self) -> None:
        self.closed_by = threading.current_thread().name


def test_those_who_want_turns_get_them_in_turns() -> None:
    worker, turns = Worker(), list[str]()
    for name in "abc":
        worker.join(Counting(name, turns, seconds=0.001))
    worker.start()
    until(lambda: len(turns) >= 30)
    worker.stop()
    assert all(set(turns[at : at + 3]) == {"a", "b", "c"} for at in range(0, 30, 3))


def test_leaving_closes_on_the_thread_of_the_work_before_the_next_turn() -> None:
    worker, turns = Worker(), list[str]()
    busy, other = Counting("busy", turns, seconds=0.02), Counting("other", turns, seconds=0.02)
    worker.join(busy)
    worker.join(other)
    worker.start()
    until(lambda: len(turns) >= 2)
    before = len(turns)
    worker.leave(other).result(10)
    assert other.closed_by == "studio worker"
    assert turns[before:].count("other") <= 1  # the turn that was running
    after = turns.count("other")
    until(lambda: turns.count("busy") > before + 2)
    worker.stop()
    assert turns.count("other") == after
    assert busy.closed_by == "studio worker"


def test_a_turn_that_fails_is_told_to_its_runner_and_to_nobody_else() -> None:
    worker, turns = Worker(), list[str]()
    broken, sound = Counting("broken", turns), Counting("sound", turns, seconds=0.001)
    broken.breaks = True
    worker.join(broken)
    worker.join(sound)
    worker.start()
    until(lambda: turns.count("sound") >= 5)
    worker.stop()
    assert turns.count("broken") == 1
    assert str(broken.failure) == "it broke"
    assert sound.failure is None


def test_an_errand_that_fails_tells_its_caller_and_the_thread_goes_on() -> None:
    worker = Worker()
    worker.start()
    with pytest.raises(ZeroDivisionError):
        worker.call(lambda: 1 // 0).result(10)
    assert worker.call(lambda: 7).result(10) == 7
    worker.stop()
    late: Future[int] = worker.call(lambda: 7)
    with pytest.raises(RuntimeError, match="closing"):
        late.result(10)


def test_whoever_sleeps_is_woken() -> None:
    worker, turns = Worker(), list[str]()
    sleeper = Counting("sleeper", turns)
    asleep = [True]
    sleeper.due = lambda now: None if asleep[0] or turns else now  # type: ignore[method-assign]
    worker.join(sleeper)
    worker.start()
    worker.call(lambda: None).result(10)
    assert not turns
    asleep[0] = False
    worker.wake()
    until(lambda: turns)
    worker.stop()
    assert turns == ["sleeper"]
