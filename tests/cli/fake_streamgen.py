"""The real command over a pipeline that paints instead of thinking: manners are tested without a model.

Run as a program: `python tests/cli/fake_streamgen.py video "a fox" ...`; a chunk takes FAKE_DELAY seconds,
and the one of number FAKE_STALLS_AT ten minutes.
Shapes: T frames, H height, W width.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamgen.cli import backend, main
from streamgen.cli.request import Request
from streamgen.errors import StreamgenError, UsageError

FRAMES_PER_CHUNK = 4


@dataclass(frozen=True)
class FakeSettings:
    fps: float = 8
    size: tuple[int, int] = (48, 32)
    steps: tuple[float, ...] = (1000, 500)
    window: int | None = 3
    sink: int = 1


@dataclass(frozen=True)
class FakeChunk:
    frames: np.ndarray  # uint8 [T, H, W, 3]
    index: int
    start: int
    timing: dict[str, float]


def folder_of(model: str) -> Path:
    if model != "tiny-video":
        raise UsageError(f"There is no model {model!r}; bundled are tiny-video.")
    return Path(model)


def chunks(request: Request) -> Iterator[FakeChunk]:
    """Grey frames that count upwards; the noisy print is what libraries do behind one's back."""
    print("a library prints to standard output")
    made, index = 0, 0
    while request.frames is None or made < request.frames:
        if os.environ.get("FAKE_FAILS_AT") == str(index):
            raise StreamgenError("The decoder ran out of memory; choose a smaller --size.")
        stalls = os.environ.get("FAKE_STALLS_AT") == str(index)
        time.sleep(600 if stalls else float(os.environ.get("FAKE_DELAY", "0")))
        count = FRAMES_PER_CHUNK if request.frames is None else min(FRAMES_PER_CHUNK, request.frames - made)
        width, height = request.size
        levels = (np.arange(made, made + count) % 256).astype(np.uint8)
        frames = np.broadcast_to(levels[:, None, None, None], (count, height, width, 3)).copy()
        yield FakeChunk(frames, index, made, {"dit": 0.01, "vae": 0.002})
        made, index = made + count, index + 1


def paint(replace: Callable[[str, object], None]) -> None:
    """Put the painted pipeline where the command looks for the real one."""
    replace("folder_of", folder_of)
    replace("settings_of", lambda folder: FakeSettings())
    replace("placed", lambda request: request)
    replace("rehearsal_of", lambda request: {})
    replace("chunks", chunks)


if __name__ == "__main__":
    paint(lambda name, stand_in: setattr(backend, name, stand_in))
    sys.argv[0] = "streamgen"
    main()
