"""The multi-scale VQ-VAE of next-scale models: images to token maps and back.

Shapes: B images, Z latent channels, p side of a scale's map, P side of the last one, H and W image size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from streamgen.models.vqvae_layers import Decoder, Encoder, Ladder
from streamgen.models.vqvae_scales import Encoded, ScaleQuantizer, Sharing


@dataclass(frozen=True)
class VqConfig:
    """Facts of a checkpoint; all of them can be read off its tensors."""

    vocabulary: int
    ladder: Ladder
    phis: int
    sharing: Sharing
    kernel: int  # of the convolutions beside the quantiser

    @property
    def channels(self) -> int:
        """Of the latent."""
        return self.ladder.latent

    @property
    def colours(self) -> int:
        return self.ladder.colours

    @property
    def reduction(self) -> int:
        """Pixels to a side of one token of the last scale."""
        return 2 ** (len(self.ladder.multiples) - 1)


class VQVAE(nn.Module):
    """Holds no state but its weights; the scales are those of the model it serves."""

    def __init__(self, config: VqConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config.ladder), Decoder(config.ladder)
        self.quantize = ScaleQuantizer(config.vocabulary, config.channels, config.phis, config.sharing)
        around = config.kernel // 2
        self.quant_conv = nn.Conv2d(config.channels, config.channels, config.kernel, padding=around)
        self.post_quant_conv = nn.Conv2d(config.channels, config.channels, config.kernel, padding=around)

    @property
    def dtype(self) -> torch.dtype:
        """What encoder and decoder multiply in; the quantiser stays fp32."""
        return self.quant_conv.weight.dtype

    def latent(self, images: Tensor) -> Tensor:
        """images [B, colours, H, W] in [-1, 1] -> [B, Z, P, P] in fp32."""
        return self.quant_conv(self.encoder(_laid_out(images, self.dtype))).float()

    def encode(self, images: Tensor, patches: Sequence[int]) -> Encoded:
        """images [B, colours, H, W] in [-1, 1] -> the tokens of every scale."""
        return self.quantize.encode(self.latent(images), patches)

    def decode(self, latent: Tensor) -> Tensor:
        """[B, Z, P, P] -> images [B, colours, H, W] in [-1, 1], in fp32; the map may be of any size."""
        decoded = self.decoder(self.post_quant_conv(_laid_out(latent, self.dtype)))
        return decoded.float().clamp(-1, 1)


def _laid_out(x: Tensor, dtype: torch.dtype) -> Tensor:
    # Channels last: the convolutions of a decoder are a quarter faster on CPUs.
    return x.to(dtype).contiguous(memory_format=torch.channels_last)
