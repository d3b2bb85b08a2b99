"""Waiting times of texts, on a clock that is set by hand."""

import pytest

from streamgen.runtime.latency import Objective, TextMeter, percentiles


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_times_run_from_the_arrival_and_only_texts_within_the_objective_are_good() -> None:
    clock = Clock()
    meter = TextMeter(clock)
    meter.arrive("quick")
    meter.arrive("slow")
    for now, key, tokens in ((101, "quick", 1), (102, "quick", 2), (104, "slow", 1), (110, "slow", 1)):
        clock.now = now
        meter.add(key, tokens)
    summary = meter.summary(Objective(first=2, gap=1))
    assert (summary["texts"], summary["tokens"], summary["window_s"]) == (2, 5, 10)
    assert summary["first_token_s"] == {"p50": 1, "p95": 4, "p99": 4}
    assert summary["gap_s"] == {"p50": 0.5, "p95": 6, "p99": 6}
    assert summary["latency_s"] == {"p50": 2, "p95": 10, "p99": 10}
    assert (summary["tokens_per_s"], summary["good_texts_per_s"], summary["good_share"]) == (0.5, 0.1, 0.5)


def test_percentiles_are_values_that_occurred() -> None:
    assert percentiles(list(range(1, 101))) == {"p50": 50, "p95": 95, "p99": 99}
    assert percentiles([3.0]) == {"p50": 3, "p95": 3, "p99": 3}


def test_nothing_written_is_said_as_nothing() -> None:
    meter = TextMeter()
    meter.arrive(0)
    assert meter.summary(Objective(1, 1)) == {"texts": 0, "tokens": 0}
    with pytest.raises(KeyError):
        meter.add("a stranger", 1)
