"""StreamingVAE: a stock `AutoencoderKLWan` that takes a stream piece by piece, bit-equal to the whole.

Shapes: C latent channels, F latent frames, h and w latent size, T pixel frames, H = h * scale, W = w * scale.
"""

from dataclasses import dataclass
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d
from einops import rearrange
from torch import Tensor

Feature = Tensor | str | None  # stock feature caches hold the marker "Rep" after the first frame


@dataclass(frozen=True)
class VaeState:
    """The history of one stream: a value, so a fork or an undo only keeps the old one."""

    features: tuple[Feature, ...]
    frames: int = 0

    @property
    def nbytes(self) -> int:
        return sum(feature.nbytes for feature in self.features if isinstance(feature, Tensor))


class StreamingVAE:
    """Owns no stream: the state goes in and the next state comes out."""

    def __init__(self, vae: Any) -> None:
        config = vae.config
        self.vae = vae
        self.channels: int = config.z_dim
        self.pixel_patch: int = config.patch_size or 1
        self.scale: int = 2 ** (len(config.dim_mult) - 1) * self.pixel_patch
        self.time_scale: int = 2 ** sum(config.temperal_downsample)
        self._mean, self._std = torch.tensor(config.latents_mean), torch.tensor(config.latents_std)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.vae.post_quant_conv.weight.device
        return device

    def decoder_state(self) -> VaeState:
        """The start of a stream to decode."""
        return _fresh(self.vae.decoder)

    def encoder_state(self) -> VaeState:
        """The start of a stream to encode."""
        return _fresh(self.vae.encoder)

    def pixel_frames(self, latents: int, first: bool) -> int:
        """Pixel frames of some latent frames: the first of a stream gives 1, every other one `time_scale`."""
        return self.time_scale * latents - (self.time_scale - 1) * (first and latents > 0)

    @torch.no_grad()
    def decode(self, latents: Tensor, state: VaeState) -> tuple[Tensor, VaeState]:
        """Normalised latents [1, C, F, h, w] -> frames [1, 3, T, H, W] in [-1, 1]."""
        mean, std = self._channelwise(self._mean, latents), self._channelwise(self._std, latents)
        raw = (latents.float() * std + mean).to(self.vae.post_quant_conv.weight.dtype)
        features, pieces = list(state.features), []
        # One frame at a time from the first layer on: then no choice of pieces can change a bit.
        for index, piece in enumerate(raw.split(1, dim=2)):
            first = state.frames + index == 0
            piece = self.vae.post_quant_conv(piece.contiguous())
            pieces.append(self.vae.decoder(piece, feat_cache=features, feat_idx=[0], first_chunk=first))
        frames = torch.cat(pieces, dim=2)
        q = self.pixel_patch
        frames = rearrange(frames, "b (c r q) t h w -> b c t (h q) (w r)", q=q, r=q)
        return frames.clamp(-1, 1).float(), VaeState(tuple(features), state.frames + raw.shape[2])

    @torch.no_grad()
    def encode(self, frames: Tensor, state: VaeState) -> tuple[Tensor, VaeState]:
        """Frames [1, 3, T, H, W] in [-1, 1] -> the most likely normalised latents [1, C, F, h, w]."""
        sizes = self._groups(frames.shape[2], state)
        q = self.pixel_patch
        x = frames.to(self.device, self.vae.post_quant_conv.weight.dtype)
        x = rearrange(x, "b c t (h q) (w r) -> b (c r q) t h w", q=q, r=q)
        features = list(state.features)
        pieces = [
            self.vae.quant_conv(self.vae.encoder(piece.contiguous(), feat_cache=features, feat_idx=[0]))
            for piece in x.split(sizes, dim=2)
        ]
        latents = torch.cat(pieces, dim=2).float()[:, : self.channels]
        mean, std = self._channelwise(self._mean, latents), self._channelwise(self._std, latents)
        return (latents - mean) / std, VaeState(tuple(features), state.frames + len(sizes))

    def _groups(self, frames: int, state: VaeState) -> list[int]:
        first = [1] if state.frames == 0 else []
        later, rest = divmod(frames - len(first), self.time_scale)
        if rest or frames <= 0:
            wanted = f"1 + {self.time_scale} n" if first else f"{self.time_scale} n"
            raise ValueError(
                f"{frames} frames cannot be encoded here: this codec takes {wanted} frames "
                f"({'at the start' if first else 'in the middle'} of a stream); add or drop frames."
            )
        return first + [self.time_scale] * later

    def _channelwise(self, numbers: Tensor, like: Tensor) -> Tensor:
        return numbers.to(like.device)[:, None, None, None]


def _fresh(side: Any) -> VaeState:
    return VaeState((None,) * sum(isinstance(module, WanCausalConv3d) for module in side.modules()))
