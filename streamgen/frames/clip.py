"""What is known of a clip before its first frame, and what every writer of frames promises.

Shapes: T frames, H height, W width.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from streamgen.errors import StreamgenError

Frames = NDArray[np.uint8]


class WriteError(StreamgenError):
    """Frames could not be written; says where, why, and what is left."""


def reason(error: OSError) -> str:
    """The system's own words for an error, without numbers and paths."""
    return (error.strerror or str(error)).rstrip(".")


@dataclass(frozen=True)
class Clip:
    """Size, rate and description of a clip; the rate is exact, so that hours do not drift."""

    width: int
    height: int
    rate: Fraction
    pix_fmt: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(f"A clip of {self.width}x{self.height} has no pixels; both must be at least 1.")
        if self.rate <= 0:
            raise ValueError(f"A clip cannot play at {self.rate} frames per second; give a positive rate.")

    def check(self, frames: Frames) -> None:
        """Refuse frames that are not uint8 [T, H, W, 3] of this clip's size."""
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
            raise ValueError(f"Frames are uint8 [T, H, W, 3]; these are {frames.dtype} {list(frames.shape)}.")
        if frames.shape[1:3] != (self.height, self.width):
            raise ValueError(
                f"Frames of {frames.shape[2]}x{frames.shape[1]} were given to a clip of "
                f"{self.width}x{self.height}; a clip keeps one size."
            )


class FrameWriter(Protocol):
    """Takes frames as they come; what was written is playable even if `close` is never reached."""

    def write(self, frames: Frames) -> None:
        """Append uint8 [T, H, W, 3]."""

    def close(self) -> None:
        """Finish the clip; closing twice is the same as once."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
