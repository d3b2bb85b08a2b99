"""A recording of a running world, as it was seen, in a folder that goes when the session goes.

Shapes: T frames, H height, W width.
"""

import json
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgen.frames import FORMATS, Clip, open_writer


class Recording:
    """Frames go to the encoder as they come; `finish` also writes the control log that replays them."""

    def __init__(self, folder: Path, number: int, fps: float) -> None:
        self.video = folder / f"recording-{number}.mp4"
        self.log = folder / f"recording-{number}.mp4.json"
        self.frames = 0
        self._fps = fps
        self._writer: Any = None
        self._closing = ExitStack()

    def add(self, frames: NDArray[np.uint8]) -> None:
        """uint8 [T, H, W, 3]; the first chunk settles the size."""
        if self._writer is None:
            _, height, width, _ = frames.shape
            clip = Clip(width, height, Fraction(self._fps).limit_denominator(1001), "yuv420p")
            self._writer = self._closing.enter_context(open_writer(self.video, FORMATS["mp4"], clip))
        self._writer.write(frames)
        self.frames += len(frames)

    def finish(self, log: dict[str, Any]) -> None:
        """Close the file and write the log beside it."""
        self.close()
        self.log.write_text(json.dumps(log, ensure_ascii=False), encoding="utf-8")

    def close(self) -> None:
        """Close the file."""
        self._closing.close()
        self._writer = None
