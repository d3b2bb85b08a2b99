"""A meter reads what its clock and its chunks say, and nothing else."""

import pytest

from streamgen.runtime.metrics import StreamMeter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def metered(chunks: int, seconds: float, frames: int = 4, total: int | None = 40) -> StreamMeter:
    clock = Clock()
    meter = StreamMeter(fps=8, total=total, clock=clock)
    for _ in range(chunks):
        clock.now += seconds
        meter.add(frames, {"dit": 0.25, "vae": 0.125})
    return meter


def test_rate_and_time_to_go_follow_the_last_chunks() -> None:
    clock = Clock()
    meter = StreamMeter(fps=8, total=400, clock=clock)
    clock.now += 60  # loading
    for _ in range(20):
        meter.add(4, {})
        clock.now += 0.5
    assert meter.rate == pytest.approx(8)
    assert meter.eta == pytest.approx((400 - 80) / 8)
    assert meter.mean_rate == pytest.approx(80 / 70)


def test_an_endless_stream_has_no_time_to_go() -> None:
    assert metered(3, 0.5, total=None).eta is None
    assert metered(0, 0.5).eta is None


def test_a_summary_adds_up() -> None:
    summary = metered(10, 0.5).summary()
    assert summary["frames"] == 40
    assert summary["wall_s"] == 5.0
    assert summary["first_chunk_s"] == 0.5
    assert summary["frames_per_s"] == 8.0
    assert summary["real_time_factor"] == 1.0
    assert summary["stages_s"] == {"dit": 2.5, "vae": 1.25}


def test_a_stream_without_frames_has_no_factor() -> None:
    assert metered(0, 0.5).summary()["real_time_factor"] is None


def test_loading_is_told_apart_from_streaming() -> None:
    clock = Clock()
    meter = StreamMeter(fps=8, total=16, clock=clock)
    clock.now += 60
    meter.load = meter.wall
    for _ in range(4):
        clock.now += 0.5
        meter.add(4, {"dit": 0.5})
    summary = meter.summary()
    assert (summary["wall_s"], summary["load_s"]) == (62.0, 60.0)
    assert summary["frames_per_s"] == 8.0
    assert summary["real_time_factor"] == 1.0
