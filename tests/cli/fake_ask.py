"""The real `streamgen ask` over a session that counts instead of thinking: manners are tested without torch.

Run as a program: `python tests/cli/fake_ask.py ask clip.mp4 "what?"`; a word takes FAKE_DELAY seconds.
"""

import os
import sys
import time
import types
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from streamgen.cli import ask_request, ask_run, backend, main
from streamgen.errors import StreamgenError

CHUNK = 2


@dataclass(frozen=True)
class FakeSettings:
    fps: float = 2
    budget: int = 64
    chunk: int = CHUNK
    answer_tokens: int = 5


@dataclass(frozen=True)
class FakeWatched:
    index: int
    frames: int
    time: float
    prefilled: int = 16
    tokens: int = 64
    eviction: None = None
    timing: dict[str, float] = field(default_factory=dict)


@dataclass
class FakeSession:
    """Says how many frames it has seen, and until when."""

    frames: int = 0
    looked: int = 0
    chunks: int = 0
    time: float = 0.0
    questions: int = 0
    first_token: float | None = 0.1
    tokens: tuple[int, ...] = (64,)
    bytes_held: int = 4096
    evictions: int = 0

    @property
    def counts(self) -> "FakeSession":
        return self

    @property
    def stats(self) -> "FakeSession":
        return self

    def push(self, picture: np.ndarray, seconds: float) -> list[FakeWatched]:
        self.frames, self.time = self.frames + 1, seconds
        return self.flush() if self.frames - self.looked >= CHUNK else []

    def flush(self) -> list[FakeWatched]:
        if self.frames == self.looked:
            return []
        count, self.looked, self.chunks = self.frames - self.looked, self.frames, self.chunks + 1
        return [FakeWatched(self.chunks - 1, count, self.time)]

    def ask(self, question: str, most: int | None = None) -> Iterator[str]:
        print("a library prints to standard output")
        for word in f"{question} {self.looked} frames until {self.time:g} s".split():
            time.sleep(float(os.environ.get("FAKE_DELAY", "0")))
            yield f"{word} "
        self.questions += 1

    def __enter__(self) -> "FakeSession":
        return self

    def __exit__(self, *error: object) -> None:
        print("the session was closed", file=sys.stderr, flush=True)


class FakePipeline:
    def open(self, **options: object) -> FakeSession:
        return FakeSession()


def paint() -> None:
    """Put the counting session where the command looks for the real one."""
    memory = types.ModuleType("streamgen.pipelines.videoqa_memory")
    memory.StreamLimitError = type("StreamLimitError", (StreamgenError,), {})  # type: ignore[attr-defined]
    sys.modules[memory.__name__] = memory
    backend.folder_of = Path
    backend.refusals = lambda attention: nullcontext()  # type: ignore[assignment, return-value]
    ask_request._settings = lambda folder: FakeSettings()  # type: ignore[assignment, return-value]
    ask_run.load = lambda wish: FakePipeline()  # type: ignore[assignment, return-value]
    ask_run.memory_of = lambda wish: None  # type: ignore[assignment, return-value]


if __name__ == "__main__":
    paint()
    sys.argv[0] = "streamgen"
    main()
