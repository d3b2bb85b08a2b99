"""Frames, frames per second and the time to go, on stderr, where somebody is watching."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from streamgen.runtime.metrics import StreamMeter


class StreamProgress:
    """A bar for a video with an end, a counter for one without; silent when stderr is no terminal."""

    def __init__(self, meter: StreamMeter, quiet: bool) -> None:
        self._meter = meter
        shown = sys.stderr.isatty() and not quiet
        end = (BarColumn(bar_width=None),) if meter.total else ()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[words]}"),
            *end,
            console=Console(stderr=True),
            disable=not shown,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("", total=meter.total, words="loading the model")

    def update(self) -> None:
        """Show where the meter stands."""
        self._progress.update(self._task, completed=self._meter.frames, words=progress_line(self._meter))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def progress_line(meter: StreamMeter) -> str:
    """`24/32 frames, 11.9 fps, 0:01 to go`, or without an end `24 frames, 3.0 s, 11.9 fps`."""
    if meter.total is None:
        return f"{meter.frames} frames, {meter.frames / meter.fps:.1f} s, {meter.rate:.1f} fps"
    to_go = "" if meter.eta is None else f", {_clock(meter.eta)} to go"
    return f"{meter.frames}/{meter.total} frames, {meter.rate:.1f} fps{to_go}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
