"""A small clip with flat areas, an edge and something that moves.

Shapes: T frames, H height, W width.
"""

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

Decode = Callable[..., np.ndarray]


@pytest.fixture
def frames() -> np.ndarray:
    """uint8 [T=20, H=48, W=64, 3]."""
    clip = np.zeros((20, 48, 64, 3), np.uint8)
    clip[:, :, :32] = (200, 30, 30)
    clip[:, :24, 32:] = (20, 180, 60)
    for t in range(20):
        clip[t, t : t + 8, t : t + 8] = 255
    return clip


@pytest.fixture
def decode() -> Decode:
    """Read a file back as uint8 [T, H, W, 3]."""

    def read(path: Path, form: str | None = None) -> np.ndarray:
        with av.open(str(path), format=form) as container:
            return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])

    return read
