"""A recording of a running world, as it was seen, in a folder that goes when the session goes.

Shapes: T frames, H height, W width.
"""

import hashlib
import json
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgen.frames import FORMATS, Clip, describe, open_writer

SEEN = "seen"  # in a log: the first frame of each recorded chunk, and the digest of its frames


def digest(frames: NDArray[np.uint8]) -> str:
    """The same only for frames [T, H, W, 3] that are the same in every bit."""
    return hashlib.blake2b(np.ascontiguousarray(frames).data, digest_size=8).hexdigest()


class Recording:
    """Frames go to the encoder as they come; `finish` also writes the control log that replays them."""

    def __init__(self, folder: Path, number: int, fps: float) -> None:
        self.video = folder / f"recording-{number}.mp4"
        self.log = folder / f"recording-{number}.mp4.json"
        self.frames = 0
        self._seen: dict[int, str] = {}
        self._fps = fps
        self._writer: Any = None
        self._closing = ExitStack()

    def add(self, frames: NDArray[np.uint8], start: int) -> None:
        """A chunk [T, H, W, 3] whose first frame has this number; the first chunk settles the size."""
        if self._writer is None:
            _, height, width, _ = frames.shape
            clip = Clip(width, height, Fraction(self._fps).limit_denominator(1001), "yuv420p")
            self._writer = self._closing.enter_context(open_writer(self.video, FORMATS["mp4"], clip))
        self._writer.write(frames)
        self._seen[start] = digest(frames)
        self.frames += len(frames)

    def undone(self, start: int) -> None:
        """What was seen from this frame on stays in the video, and is not what the log replays."""
        self._seen = {frame: seen for frame, seen in self._seen.items() if frame < start}

    def finish(self, log: dict[str, Any]) -> None:
        """Close the file, and write the log beside it and into it."""
        self.close()
        words = json.dumps({**log, SEEN: self._seen}, ensure_ascii=False)
        self.log.write_text(words, encoding="utf-8")
        describe(self.video, {"title": log["prompt"], "comment": words})

    def close(self) -> None:
        """Close the file."""
        self._closing.close()
        self._writer = None
