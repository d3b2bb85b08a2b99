"""The line under a bar: frames, frames per second, time to go."""

from streamgen.cli.progress import progress_line
from streamgen.runtime.metrics import StreamMeter


def line(frames: int, total: int | None, seconds: float) -> str:
    now = [0.0]
    meter = StreamMeter(fps=8, total=total, clock=lambda: now[0])
    now[0] = seconds
    meter.add(frames, {})
    return progress_line(meter)


def test_a_video_with_an_end_says_how_long_it_takes_yet() -> None:
    assert line(16, 96, 2.0) == "16/96 frames, 8.0 fps, 0:10 to go"
    assert line(1, 7201, 1.0) == "1/7201 frames, 1.0 fps, 2:00:00 to go"


def test_an_endless_video_says_how_much_there_is() -> None:
    assert line(24, None, 2.0) == "24 frames, 3.0 s, 12.0 fps"
