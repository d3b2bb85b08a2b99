"""One piece of a stream, and the refusal of one that is dead.

Shapes: T frames, H height, W width, C latent channels, F latent frames, h and w latent size.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from einops import rearrange
from torch import Tensor

from streamgen.errors import StreamgenError


class DeadChunkError(StreamgenError):
    """A chunk came out as NaN, or as one colour without any picture."""


@dataclass(frozen=True)
class Chunk:
    """Frames as they were computed; `latents` continue a stream without another trip through pixels."""

    frames: npt.NDArray[np.uint8]  # [T, H, W, 3]
    index: int
    start: int  # number of the first frame
    timing: dict[str, float]  # seconds of each stage
    latents: Tensor  # [1, C, F, h, w]


def to_pixels(frames: Tensor, index: int, attention: str) -> npt.NDArray[np.uint8]:
    """Frames [1, 3, T, H, W] in [-1, 1] -> uint8 [T, H, W, 3]; NaN and plain colour are errors."""
    if not bool(frames.isfinite().all()):
        raise DeadChunkError(f"Chunk {index} is NaN or infinite. {_advice(attention)}")
    pixels = ((frames + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
    pixels = rearrange(pixels, "1 c t h w -> t h w c").cpu()
    if bool((pixels == pixels[:, :1, :1]).all()):
        raise DeadChunkError(f"Chunk {index} is a plain colour without any picture. {_advice(attention)}")
    return pixels.numpy()


def _advice(attention: str) -> str:
    other = "reference" if attention == "sdpa" else "sdpa"
    return (
        f"The kernel was {attention!r}: try attention={other!r} or dtype=torch.float32, "
        "and check that the weights belong to the model."
    )
