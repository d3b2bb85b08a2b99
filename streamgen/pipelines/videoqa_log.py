"""What a session tells of itself: progress, evictions, questions, counts."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

LOGGED = 1000  # evictions and exchanges that are remembered: a stream has no end, a log has


@dataclass(frozen=True)
class Eviction:
    """Tokens that were let go after a chunk, and why."""

    chunk: int
    time: float  # seconds, of the last frame watched
    why: str
    before: tuple[int, ...]  # tokens of each layer, prompt included
    after: tuple[int, ...]
    summaries: tuple[int, ...]  # layers that got a summary of what went
    renumbered: bool  # whether positions were closed up

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers that are smaller than before, or hold something else."""
        pairs = enumerate(zip(self.before, self.after, strict=True))
        return tuple(layer for layer, (old, new) in pairs if old != new or layer in self.summaries)


@dataclass(frozen=True)
class Watched:
    """One chunk was looked at and remembered."""

    index: int
    frames: int
    time: float  # seconds, of its last frame
    prefilled: int  # tokens computed: the new ones
    tokens: int  # remembered now, in the longest layer, prompt included
    eviction: Eviction | None
    timing: dict[str, float]  # seconds: vision, prefill, memory


@dataclass(frozen=True)
class Exchange:
    """A question and its answer; their text guides what is kept from then on."""

    question: str
    answer: str
    options: tuple[str, ...]
    time: float  # seconds of the stream when it was asked


@dataclass
class Counts:
    """What has happened so far in a session."""

    frames: int = 0  # offered, after sampling; the memory may have passed over some
    looked: int = 0  # that went through the model
    chunks: int = 0
    prefilled: int = 0  # tokens computed for chunks, each once
    evictions: int = 0
    questions: int = 0
    time: float = 0.0  # seconds, of the last frame
    first_token: float | None = None  # seconds from the last question to the first token of its answer


@dataclass(frozen=True)
class QAStats:
    """A session at one moment; bytes are those of keys and values."""

    frames: int
    looked: int
    chunks: int
    prefilled: int
    evictions: int
    questions: int
    time: float
    first_token: float | None
    pending: int  # frames that wait for a chunk to be full
    tokens: tuple[int, ...]  # remembered in each layer
    position: int  # the highest one in use
    bytes_held: int  # of tokens
    bytes_reserved: int  # of the pool
    pages: int
    pages_free: int


@dataclass(frozen=True)
class Told:
    """All that a session knows besides its tokens; a new one knows nothing."""

    counts: Counts = field(default_factory=Counts)
    history: list[Exchange] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    pending: list[tuple[int, npt.NDArray[np.uint8], float]] = field(
        default_factory=list
    )  # number, frame, seconds
    steer: bool = True
