"""The quantiser of next-scale models: an image latent as a sum of code maps, coarse to fine.

Parameters carry their published names. Shapes: B images, Z latent channels, V codes, S scales, p side of a
scale's map, P side of the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

Sharing = Literal["stretches", "all", "none"]  # which scales have one phi together
SHARE = 0.5  # of the convolution in the mix; the same in every published model


@dataclass(frozen=True)
class Encoded:
    """A latent, quantised: the tokens [B, p*p] of each scale and the sum [B, Z, P, P] after each."""

    tokens: tuple[Tensor, ...]
    sums: tuple[Tensor, ...]


class SharedPhis(nn.Module):
    """Several convolutions, each for a stretch of scales."""

    def __init__(self, phis: list[nn.Module]) -> None:
        super().__init__()
        self.qresi_ls = nn.ModuleList(phis)

    def phi(self, scale: int, scales: int) -> nn.Module:
        return self.qresi_ls[phi_index(scale, scales, len(self.qresi_ls))]


class SinglePhi(nn.Module):
    """One convolution for all scales."""

    def __init__(self, phis: list[nn.Module]) -> None:
        super().__init__()
        (self.qresi,) = phis

    def phi(self, scale: int, scales: int) -> nn.Module:
        return self.qresi


class OwnPhis(nn.ModuleList):
    """A convolution for each scale."""

    def phi(self, scale: int, scales: int) -> nn.Module:
        return self[phi_index(scale, scales, len(self))]


_HOLDERS: dict[Sharing, type[SharedPhis | SinglePhi | OwnPhis]] = {
    "stretches": SharedPhis,
    "all": SinglePhi,
    "none": OwnPhis,
}


class ScaleQuantizer(nn.Module):
    """Codes, and what turns a map of them into its part of the latent."""

    def __init__(self, vocabulary: int, channels: int, phis: int, sharing: Sharing) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, channels)
        convs: list[nn.Module] = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(phis)]
        self.quant_resi = _HOLDERS[sharing](convs)

    @property
    def codebook(self) -> Tensor:
        """[V, Z]."""
        return self.embedding.weight

    def codes(self, tokens: Tensor) -> Tensor:
        """tokens [B, p*p] -> [B, Z, p, p]."""
        return as_map(self.embedding(tokens))

    def part(self, codes: Tensor, scale: int, patches: Sequence[int]) -> Tensor:
        """What a map of codes [B, Z, p, p] adds to the latent: [B, Z, P, P]."""
        size = patches[-1]
        if codes.shape[-1] != size:
            codes = F.interpolate(codes, size=(size, size), mode="bicubic", align_corners=False)
        return codes * (1 - SHARE) + self.quant_resi.phi(scale, len(patches))(codes) * SHARE

    def pooled(self, latent: Tensor, side: int) -> Tensor:
        """[B, Z, P, P] averaged to [B, Z, p, p]; the windows may be uneven."""
        return F.interpolate(latent, size=(side, side), mode="area")

    def encode(self, latent: Tensor, patches: Sequence[int]) -> Encoded:
        """Residual quantisation of a latent [B, Z, P, P]: each scale codes what the coarser ones left."""
        rest, total = latent.float(), torch.zeros_like(latent, dtype=torch.float32)
        tokens, sums = [], []
        for scale, side in enumerate(patches):
            pooled = rest if side == patches[-1] else self.pooled(rest, side)
            tokens.append(self.nearest(pooled))
            part = self.part(self.codes(tokens[-1]), scale, patches)
            rest, total = rest - part, total + part
            sums.append(total)
        return Encoded(tuple(tokens), tuple(sums))

    def nearest(self, latent: Tensor) -> Tensor:
        """The nearest code of every place of [B, Z, p, p]: [B, p*p]."""
        places = rearrange(latent, "b z h w -> (b h w) z")
        distance = places.square().sum(1, keepdim=True) + self.codebook.square().sum(1)
        distance = distance.addmm(places, self.codebook.T, alpha=-2)
        return rearrange(distance.argmin(1), "(b n) -> b n", b=len(latent))


def as_map(places: Tensor) -> Tensor:
    """[B, p*p, Z] -> [B, Z, p, p]."""
    side = round(places.shape[1] ** 0.5)
    return rearrange(places, "b (h w) z -> b z h w", h=side)


def phi_index(scale: int, scales: int, phis: int) -> int:
    """Which phi a scale uses: the nearest of ticks; ties are decided by float64 rounding, as published."""
    gap = 1 / 3 / phis if phis == 4 else 1 / 2 / phis
    ticks = np.linspace(gap, 1 - gap, phis)
    return int(np.argmin(np.abs(ticks - scale / (scales - 1))))
