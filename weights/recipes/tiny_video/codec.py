"""The codec: principal components of 4 x 4 pixel patches, written into the stock `AutoencoderKLWan`.

A picture made of tiles is nearly linear in few components: 24 of 48 give about 39 dB without a step of
descent. The stock class can hold a linear map exactly: channel pairs (+a, -a) pass SiLU unharmed because
silu(a) - silu(-a) = a, a large constant channel makes the RMS norms constant, and every residual branch
starts at zero.

Shapes: N patches, D = 48 numbers of a patch, Z latent channels.
"""

from dataclasses import dataclass

import torch
from diffusers import AutoencoderKLWan
from einops import rearrange
from torch import Tensor, nn

PATCH = 4
_STEADY = 1000.0  # the constant channel that swamps the norm


@dataclass(frozen=True)
class Linear:
    """pixels in [-1, 1] -> (patch - mean) @ encode = latent; latent @ decode + mean = patch."""

    mean: Tensor  # [D]
    encode: Tensor  # [D, Z]
    decode: Tensor  # [Z, D]

    def latents(self, frames: Tensor) -> Tensor:
        """uint8 frames [..., H, W, 3] -> latents [..., Z, H/4, W/4]."""
        x = rearrange(frames.float() / 127.5 - 1, "... (h q) (w r) c -> ... h w (c r q)", q=PATCH, r=PATCH)
        return rearrange((x - self.mean) @ self.encode, "... h w z -> ... z h w")

    def frames(self, latents: Tensor) -> Tensor:
        """Latents [..., Z, h, w] -> uint8 frames [..., H, W, 3]."""
        x = rearrange(latents.float(), "... z h w -> ... h w z") @ self.decode + self.mean
        x = rearrange(x, "... h w (c r q) -> ... (h q) (w r) c", q=PATCH, r=PATCH, c=3)
        return ((x.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)


def fit(frames: Tensor, channels: int) -> Linear:
    """Principal components of uint8 frames [T, H, W, 3], each scaled to about unit size (half whitened)."""
    x = rearrange(frames.double() / 127.5 - 1, "t (h q) (w r) c -> (t h w) (c r q)", q=PATCH, r=PATCH)
    mean = x.mean(0)
    _, spread, basis = torch.linalg.svd((x - mean).T @ (x - mean) / len(x))
    scale = 1.3 * spread[:channels].clamp_min(1e-9) ** -0.25  # eigenvalues are variances: std ** -0.5
    encode = basis[:channels].T * scale
    return Linear(mean.float(), encode.float(), (basis[:channels] / scale[:, None]).float())


def into_stock(codec: Linear, base: int = 56) -> AutoencoderKLWan:
    """The same linear map as a stock `AutoencoderKLWan`; `base` channels hold a pair for each latent and a
    constant."""
    channels = codec.encode.shape[1]
    vae = AutoencoderKLWan(
        base_dim=base,
        z_dim=channels,
        dim_mult=[1],
        num_res_blocks=0,
        attn_scales=[],
        temperal_downsample=[],
        in_channels=3 * PATCH**2,
        out_channels=3 * PATCH**2,
        patch_size=PATCH,
        scale_factor_temporal=1,
        scale_factor_spatial=PATCH,
        latents_mean=[0.0] * channels,
        latents_std=[1.0] * channels,
    ).requires_grad_(False)
    for half in (vae.encoder, vae.decoder):
        _silence(half)
        half.norm_out.gamma.fill_(_STEADY / base**0.5)
    _pairs(vae.encoder.conv_in, codec.encode.T, -codec.mean @ codec.encode)
    _unpair(vae.encoder.conv_out, torch.eye(channels), torch.zeros(channels))
    vae.encoder.conv_out.bias[channels:] = -20.0  # the log variance
    _identity(vae.quant_conv)
    _identity(vae.post_quant_conv)
    _pairs(vae.decoder.conv_in, torch.eye(channels), torch.zeros(channels))
    _unpair(vae.decoder.conv_out, codec.decode.T, codec.mean)
    return vae.eval()


def _silence(half: nn.Module) -> None:
    """Residual branches that add nothing."""
    for name, module in half.named_modules():
        if name.endswith((".conv2", ".proj")):
            module.weight.zero_()
            module.bias.zero_()


def _identity(conv: nn.Conv3d) -> None:
    conv.weight.copy_(torch.eye(conv.out_channels)[:, :, None, None, None])
    conv.bias.zero_()


def _centre(conv: nn.Conv3d) -> Tensor:
    """The tap of the newest frame's middle pixel, [out, in]; the others are zeroed (the convolution is
    causal)."""
    conv.weight.zero_()
    conv.bias.zero_()
    return conv.weight[:, :, -1, conv.kernel_size[1] // 2, conv.kernel_size[2] // 2]


def _pairs(conv: nn.Conv3d, matrix: Tensor, bias: Tensor) -> None:
    tap, n = _centre(conv), len(matrix)
    tap[:n], tap[n : 2 * n] = matrix, -matrix
    conv.bias[:n], conv.bias[n : 2 * n], conv.bias[2 * n] = bias, -bias, _STEADY


def _unpair(conv: nn.Conv3d, matrix: Tensor, bias: Tensor) -> None:
    tap, (rows, n) = _centre(conv), matrix.shape
    tap[:rows, :n], tap[:rows, n : 2 * n] = matrix, -matrix
    conv.bias[:rows] = bias
