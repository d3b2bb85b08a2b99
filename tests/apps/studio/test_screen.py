"""Newest first, never a queue; and an even pace."""

import numpy as np
import pytest

from apps.studio.outbox import MOST, Outbox
from apps.studio.screen import Picture, Screen
from apps.studio.tempo import Tempo


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def picture(number: int, due: float) -> Picture:
    return Picture((np.zeros((2, 2, 3), np.uint8),), {"frame": number}, due)


def quiet() -> None:
    """Nobody listens."""


def test_a_viewer_who_keeps_up_sees_every_picture_when_it_is_due() -> None:
    clock = Clock()
    screen = Screen(quiet, clock)
    screen.put([picture(number, 100.0 + number) for number in range(3)])
    seen = []
    for _ in range(3):
        now, _ = screen.take()
        assert now is not None
        seen.append(now.facts["frame"])
        early, wait = screen.take()
        assert early is None
        assert wait in (1.0, None)
        clock.now += 1.0
    assert (seen, screen.dropped, screen.shown) == ([0, 1, 2], 0, 3)


def test_a_slow_viewer_gets_the_newest_that_is_due_and_nothing_piles_up() -> None:
    clock = Clock()
    screen = Screen(quiet, clock)
    for chunk in range(50):
        screen.put([picture(chunk * 4 + frame, clock.now + frame / 4) for frame in range(4)])
        clock.now += 1.0
        assert screen.waiting <= 5
    newest, _ = screen.take()
    assert newest is not None
    assert newest.facts["frame"] == 199
    assert screen.dropped == 199


def test_a_viewer_who_is_away_is_known_by_what_is_overdue() -> None:
    clock = Clock()
    screen = Screen(quiet, clock)
    assert screen.overdue == 0
    screen.put([picture(0, 100.0)])
    clock.now += 4.0
    screen.put([picture(1, 104.0)])  # more of it makes them no less away
    clock.now += 3.0
    assert screen.overdue == 7.0
    screen.take()
    assert screen.overdue == 0


@pytest.mark.parametrize("slower", [0.25, 1.0, 2.0, 4.0])
def test_the_pace_is_even_and_the_lead_is_bounded_at_any_speed(slower: float) -> None:
    """A chunk lasts 1 s and takes `slower` s to make."""
    clock = Clock()
    tempo = Tempo(1.0, clock)
    starts = []
    for _ in range(20):
        clock.now = max(clock.now, tempo.ready())
        clock.now += slower
        start, seconds = tempo.place(1.0)
        starts.append(start)
        assert tempo.lead <= 2 * seconds
    gaps = np.diff(starts[8:])
    assert np.allclose(gaps, max(1.0, slower), atol=1e-6)


def test_one_hiccup_does_not_slow_the_stream_for_ever() -> None:
    clock = Clock()
    tempo = Tempo(1.0, clock)
    for number in range(20):
        clock.now = max(clock.now, tempo.ready())
        clock.now += 5.0 if number == 5 else 0.2
        tempo.place(1.0)
    assert tempo.seconds == 1.0


def test_words_come_in_order_and_what_repeats_only_once() -> None:
    outbox = Outbox(quiet)
    for number in range(10):
        outbox.show("readout", chunk=number)
    outbox.say("receipt", number=1)
    outbox.say("receipt", number=2)
    kinds = [(note["say"], note.get("number", note.get("chunk"))) for note in outbox.take()]
    assert kinds == [("receipt", 1), ("receipt", 2), ("readout", 9)]
    assert outbox.take() == []


def test_who_never_reads_is_found_out() -> None:
    outbox = Outbox(quiet)
    for number in range(MOST + 10):
        outbox.say("receipt", number=number)
    assert outbox.overrun
    assert len(outbox.take()) == MOST
