"""How fast a stream runs, and where its time goes.

Every number says what it includes: a chunk's seconds are the sum of its stages, `wall` is the clock.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

RECENT = 8  # chunks that the current rate is taken over


@dataclass
class StreamMeter:
    """Counts frames and seconds of one stream as its chunks go by."""

    fps: float
    total: int | None  # frames asked for; None for a stream that never ends
    clock: Callable[[], float] = time.perf_counter
    frames: int = 0
    chunks: int = 0
    stages: dict[str, float] = field(default_factory=dict)
    first_chunk: float | None = None
    load: float = 0.0  # seconds before anything was computed: imports and weights

    def __post_init__(self) -> None:
        self.began = self.clock()
        self._recent: deque[tuple[float, int]] = deque([(self.began, 0)], maxlen=RECENT + 1)

    def add(self, frames: int, stages: Mapping[str, float]) -> None:
        """A chunk is done: its frames are out, and its stages took these seconds."""
        now = self.clock()
        self.frames += frames
        self.chunks += 1
        for name, seconds in stages.items():
            self.stages[name] = self.stages.get(name, 0.0) + seconds
        if self.first_chunk is None:
            self.first_chunk = now - self.began
        self._recent.append((now, self.frames))

    @property
    def wall(self) -> float:
        """Seconds since the meter was made."""
        return self.clock() - self.began

    @property
    def rate(self) -> float:
        """Frames per second over the last chunks."""
        (start, before), (end, after) = self._recent[0], self._recent[-1]
        return (after - before) / (end - start) if end > start else 0.0

    @property
    def mean_rate(self) -> float:
        """Frames per second since the model was loaded."""
        running = self.wall - self.load
        return self.frames / running if running > 0 else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds to go at the current rate; None where there is no end or no rate yet."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.frames) / self.rate

    def summary(self) -> dict[str, object]:
        """The whole stream in one record."""
        wall = self.wall
        running = wall - self.load
        return {
            "frames": self.frames,
            "chunks": self.chunks,
            "wall_s": round(wall, 4),
            "load_s": round(self.load, 4),
            "first_chunk_s": None if self.first_chunk is None else round(self.first_chunk, 4),
            "frames_per_s": round(self.mean_rate, 3),
            "real_time_factor": round(running * self.fps / self.frames, 4) if self.frames else None,
            "stages_s": {name: round(seconds, 4) for name, seconds in self.stages.items()},
        }
