"""Stamps become times: exactly where there are any, by the nominal rate or the clock where there are none."""

from fractions import Fraction

from streamgen.frames.timeline import Timeline

STEP = Fraction(1, 25)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_times_are_exact_after_any_number_of_frames() -> None:
    timeline = Timeline(live=False)
    timeline.begin(Fraction(1, 3))
    for index in range(5_000):
        time = timeline.time(Fraction(1, 3) + index * Fraction(1001, 30_000), STEP)
    assert time == 4_999 * Fraction(1001, 30_000)


def test_a_recording_without_stamps_goes_on_by_its_rate() -> None:
    timeline = Timeline(live=False)
    timeline.begin(None)
    assert [timeline.time(None, STEP) for _ in range(3)] == [0, STEP, 2 * STEP]


def test_a_live_source_without_stamps_goes_on_by_the_clock() -> None:
    clock = Clock()
    timeline = Timeline(True, clock)
    timeline.begin(None)
    assert timeline.time(None, STEP) == 0
    clock.now += 0.75
    assert timeline.time(None, STEP) == Fraction(3, 4)


def test_a_stamp_that_jumps_back_follows_one_frame_after_the_last() -> None:
    timeline = Timeline(live=False)
    timeline.begin(Fraction(5))
    times = [timeline.time(Fraction(stamp), STEP) for stamp in (5, 6, 7, 0, 1)]
    assert times == [0, 1, 2, 2 + STEP, 3 + STEP]


def test_a_live_source_that_comes_back_is_later_by_the_clock_whatever_its_stamps() -> None:
    clock = Clock()
    timeline = Timeline(True, clock)
    timeline.begin(None)
    times = [timeline.time(Fraction(stamp), STEP) for stamp in (1000, 1001)]
    timeline.resume()
    timeline.begin(None)
    clock.now += 4
    times += [timeline.time(Fraction(stamp), STEP) for stamp in (7, 8)]
    assert times == [0, 1, 5, 6]
