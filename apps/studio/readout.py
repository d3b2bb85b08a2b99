"""The numbers in the corner of a player."""

from collections import deque
from typing import Any

from streamgen.runtime.metrics import StreamMeter

RECENT = 64  # chunks that p95 is taken over


class Readout:
    """Counts one session's chunks. Rates are by the clock, chunk times are of the computation alone."""

    def __init__(self, fps: float) -> None:
        self.fps = fps
        self.meter = StreamMeter(fps, None)
        self._chunks: deque[float] = deque(maxlen=RECENT)
        self.input_to_frame: float | None = None  # seconds from a key to the frames made under it
        self.input_to_shown: float | None = None  # and to the answer of the page that showed them

    def add(self, frames: int, seconds: float) -> None:
        """A chunk of so many frames took so many seconds, for all branches together."""
        self._chunks.append(seconds)
        self.meter.add(frames, {})

    def record(self) -> dict[str, Any]:
        ordered = sorted(self._chunks)
        return {
            "fps": round(self.meter.rate, 1),
            "wanted_fps": self.fps,
            "chunk_ms": _ms(self._chunks[-1] if self._chunks else None),
            "p95_ms": _ms(ordered[int(0.95 * (len(ordered) - 1))] if ordered else None),
            "chunks": self.meter.chunks,
            "input_ms": _ms(self.input_to_frame),
            "shown_ms": _ms(self.input_to_shown),
        }


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(1000 * seconds)
