"""A folder of numbered PNGs, with the clip's description beside them in clip.json.

Shapes: T frames, H height, W width.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import Self

from PIL import Image

from streamgen.frames.clip import Clip, Frames, WriteError, reason
from streamgen.frames.formats import FORMATS


class PngWriter:
    """frame_000000.png, frame_000001.png, ...: each one is complete when the next begins."""

    def __init__(self, folder: Path, clip: Clip) -> None:
        FORMATS["png"].pix_fmt(clip.pix_fmt)
        self.clip = clip
        self._folder = folder
        self._frames = 0
        about = {"rate": str(clip.rate), "size": [clip.width, clip.height], **clip.metadata}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "clip.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise WriteError(f"The folder {folder} cannot be written: {reason(error)}.") from error

    def write(self, frames: Frames) -> None:
        """Append uint8 [T, H, W, 3]."""
        self.clip.check(frames)
        for rgb in frames:
            try:
                Image.fromarray(rgb).save(self._folder / f"frame_{self._frames:06d}.png")
            except OSError as error:
                raise WriteError(
                    f"{self._folder}: writing stopped after {self._frames} frames: {reason(error)}."
                ) from error
            self._frames += 1

    def close(self) -> None:
        """Nothing is open between two frames."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
