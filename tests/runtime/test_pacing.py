"""Pacing, against a clock that only moves when it is told to."""

import threading

import pytest

from streamgen.errors import UsageError
from streamgen.runtime.pacing import BUFFER, Latest, Pacer, Policy

CHUNK = 0.5


class Clock:
    """Time that passes only by sleeping and working."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(policy: Policy, work: list[float]) -> tuple[list[float], list[float], Pacer]:
    """Make one chunk for each entry, which takes so long; when each is shown, and the leads."""
    clock = Clock()
    pacer = Pacer(policy, clock, clock.sleep)
    shown, leads = [], []
    for seconds in work:
        pacer.ready()
        clock.now += seconds
        shown.append(max(clock.now, pacer.due(CHUNK)))
        leads.append(pacer.lead)
    return shown, leads, pacer


@pytest.mark.parametrize("speed", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_live_is_never_more_than_one_chunk_ahead_of_what_is_shown(speed: float) -> None:
    shown, leads, _ = run("live", [CHUNK / speed] * 50)
    assert max(leads) <= 2 * CHUNK + 1e-9  # the chunk being shown, and one
    gaps = [b - a for a, b in zip(shown, shown[1:], strict=False)]
    assert min(gaps) >= CHUNK - 1e-9
    assert max(gaps) == pytest.approx(max(CHUNK, CHUNK / speed))


@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
def test_smooth_shows_at_even_times_and_bounds_its_lead(speed: float) -> None:
    shown, leads, _ = run("smooth", [CHUNK / speed] * 50)
    assert max(leads) <= (BUFFER + 2) * CHUNK  # what is shown, the chunk in hand, and the buffer
    assert min(b - a for a, b in zip(shown, shown[1:], strict=False)) >= CHUNK - 1e-9


def test_smooth_rides_out_a_jitter_that_its_buffer_covers() -> None:
    shown, _, pacer = run("smooth", [0.1] * 5 + [0.9] + [0.1] * 5)
    gaps = [b - a for a, b in zip(shown, shown[1:], strict=False)]
    assert gaps == pytest.approx([CHUNK] * 10) and pacer.stalls == 0


def test_after_a_stall_the_clock_is_anchored_anew_and_nothing_is_rushed() -> None:
    for policy in ("live", "smooth"):
        shown, _, pacer = run(policy, [0.1] * 5 + [30.0] + [0.1] * 5)
        gaps = [b - a for a, b in zip(shown, shown[1:], strict=False)]
        assert max(gaps) > 25 and pacer.stalls == 1
        assert gaps[5:] == pytest.approx([CHUNK] * 5)


def test_file_waits_for_nobody() -> None:
    shown, _, _ = run("file", [0.01] * 100)
    assert shown[-1] - shown[0] == pytest.approx(0.99)


def test_show_waits_until_the_chunk_is_due() -> None:
    clock = Clock()
    pacer = Pacer("live", clock, clock.sleep)
    pacer.show(CHUNK)
    pacer.show(CHUNK)
    assert clock.now == pytest.approx(100 + CHUNK)


def test_an_unknown_pace_is_refused() -> None:
    with pytest.raises(UsageError, match="choose one of live, smooth, file"):
        Pacer("fast")  # type: ignore[arg-type]


def test_a_slow_viewer_gets_the_newest_and_the_rest_is_counted() -> None:
    outlet: Latest[int] = Latest()
    for number in range(5):
        outlet.put(number)
    assert outlet.take() == 4 and outlet.dropped == 4
    threading.Timer(0.01, outlet.close).start()
    assert outlet.take() is None
