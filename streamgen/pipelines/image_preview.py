"""What a stream of images yields: the batch as it looks after each scale, decoded only when it is looked at.

Shapes: B images, Z latent channels, P side of the last scale's map, H and W image size.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamgen.models.vqvae import VQVAE

Pictures: TypeAlias = npt.NDArray[np.uint8]  # [B, H, W, 3]


@dataclass(frozen=True, eq=False)
class Preview:
    """A batch of images after one scale; after the last one they are the pictures."""

    index: int
    patches: tuple[int, ...]  # sides of the maps of all scales
    labels: tuple[int, ...]
    seeds: tuple[int, ...]
    seconds: float  # that the scale took, decoding apart
    tokens: Tensor  # [B, p*p]
    latent: Tensor  # [B, Z, P, P]
    vae: VQVAE

    @property
    def last(self) -> bool:
        return self.index == len(self.patches) - 1

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the pictures."""
        side = self.patches[-1] * self.vae.config.reduction
        return side, side

    @cached_property
    def images(self) -> Pictures:
        """[B, H, W, 3]: the whole latent, decoded."""
        return self._decoded(self.latent)

    @cached_property
    def thumbnails(self) -> Pictures:
        """[B, h, w, 3]: decoded from a latent as small as the scale allows, four times as fast at first."""
        side = max(self.patches[self.index], self.patches[-1] // 2)
        return self._decoded(self.vae.quantize.pooled(self.latent, side))

    @torch.inference_mode()
    def _decoded(self, latent: Tensor) -> Pictures:
        decoded = self.vae.decode(latent)
        if decoded.shape[1] == 1:
            decoded = decoded.expand(-1, 3, -1, -1)
        bytes_ = ((decoded + 1) * 127.5).round().to(torch.uint8)
        return bytes_.permute(0, 2, 3, 1).contiguous().cpu().numpy()
