"""Encoder and decoder of the multi-scale VQ-VAE. Parameters carry their published names.

Shapes: B images, C channels, H and W size of a level.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

GROUPS, EPS = 32, 1e-6
CHUNK = 1 << 17  # numbers that stay in a core's cache between two passes over them


class Norm(nn.GroupNorm):
    """A group norm that is exact in fp32 on CPUs, where torch takes E[x^2] - E[x]^2 of channels-last maps."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or x.dtype != torch.float32:
            return super().forward(x)
        places = rearrange(x, "b c h w -> b (h w) c")
        mean = places.mean(1)
        chunks = places.split(max(1, CHUNK // x.shape[1]), dim=1)
        spread = (
            torch.stack([(chunk - mean[:, None]).square().sum(1) for chunk in chunks]).sum(0)
            / places.shape[1]
        )
        return self._apply_groups(x, mean, spread)

    def _apply_groups(self, x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
        """mean and variance [B, C] of each channel; those of a group follow from them."""
        means, spreads = (rearrange(part, "b (g c) -> b g c", g=self.num_groups) for part in (mean, spread))
        centre = means.mean(-1, keepdim=True)
        spread = (spreads + (means - centre).square()).mean(-1, keepdim=True)
        factor = (spread + self.eps).rsqrt().expand_as(means).flatten(1) * self.weight
        shift = self.bias - centre.expand_as(means).flatten(1) * factor
        return torch.addcmul(shift[..., None, None], x, factor[..., None, None])


def norm(channels: int) -> Norm:
    return Norm(min(GROUPS, channels), channels, eps=EPS)


def conv(inside: int, outside: int, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, kernel, padding=kernel // 2)


class ResnetBlock(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = norm(inside), conv(inside, outside)
        self.norm2, self.conv2 = norm(outside), conv(outside, outside)
        self.nin_shortcut = nn.Identity() if inside == outside else conv(inside, outside, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.conv1(F.silu(self.norm1(x)))
        return self.nin_shortcut(x) + self.conv2(F.silu(self.norm2(hidden)))


class AttentionBlock(nn.Module):
    """One head over all places of a map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = norm(channels)
        self.qkv = conv(channels, 3 * channels, 1)
        self.proj_out = conv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        qkv = rearrange(self.qkv(self.norm(x)), "b (n c) h w -> n b 1 (h w) c", n=3)
        out = F.scaled_dot_product_attention(*qkv.unbind(0))
        return x + self.proj_out(rearrange(out, "b 1 (h w) c -> b c h w", h=x.shape[2]))


class Middle(nn.Module):
    def __init__(self, channels: int, attention: bool) -> None:
        super().__init__()
        self.block_1 = ResnetBlock(channels, channels)
        self.attn_1 = AttentionBlock(channels) if attention else nn.Identity()
        self.block_2 = ResnetBlock(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.block_2(self.attn_1(self.block_1(x)))


class Downsample(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Upsample(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = conv(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Level(nn.Module):
    """Residual blocks of one resolution, each followed by attention where the level has it."""

    def __init__(self, inside: int, outside: int, blocks: int, attention: bool) -> None:
        super().__init__()
        sizes = [inside, *[outside] * blocks]
        self.block = nn.ModuleList(ResnetBlock(a, b) for a, b in zip(sizes, sizes[1:], strict=False))
        self.attn = nn.ModuleList(AttentionBlock(outside) for _ in range(blocks if attention else 0))

    def forward(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.block):
            x = block(x)
            x = self.attn[index](x) if self.attn else x
        return x


class DownLevel(Level):
    def __init__(self, inside: int, outside: int, blocks: int, attention: bool, last: bool) -> None:
        super().__init__(inside, outside, blocks, attention)
        self.downsample = nn.Identity() if last else Downsample(outside)

    def forward(self, x: Tensor) -> Tensor:
        return self.downsample(super().forward(x))


class UpLevel(Level):
    def __init__(self, inside: int, outside: int, blocks: int, attention: bool, last: bool) -> None:
        super().__init__(inside, outside, blocks, attention)
        self.upsample = nn.Identity() if last else Upsample(outside)

    def forward(self, x: Tensor) -> Tensor:
        return self.upsample(super().forward(x))


@dataclass(frozen=True)
class Ladder:
    """The sizes that encoder and decoder share."""

    colours: int
    latent: int
    base: int
    multiples: tuple[int, ...]  # one for each level, fine to coarse
    blocks: int  # residual blocks of an encoder level
    lowest_attention: bool
    middle_attention: bool


class Encoder(nn.Module):
    """Images to maps whose side is halved between levels."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__()
        sizes = [ladder.base, *[ladder.base * multiple for multiple in ladder.multiples]]
        last = len(ladder.multiples) - 1
        self.conv_in = conv(ladder.colours, ladder.base)
        self.down = nn.ModuleList(
            DownLevel(*pair, ladder.blocks, ladder.lowest_attention and level == last, level == last)
            for level, pair in enumerate(zip(sizes, sizes[1:], strict=False))
        )
        self.mid = Middle(sizes[-1], ladder.middle_attention)
        self.norm_out, self.conv_out = norm(sizes[-1]), conv(sizes[-1], ladder.latent)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(x)
        for level in self.down:
            x = level(x)
        return self.conv_out(F.silu(self.norm_out(self.mid(x))))


class Decoder(nn.Module):
    """Maps to images; `up` is numbered from fine to coarse and runs from coarse to fine."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__()
        sizes = [ladder.base * multiple for multiple in ladder.multiples]
        last = len(sizes) - 1
        self.conv_in = conv(ladder.latent, sizes[-1])
        self.mid = Middle(sizes[-1], ladder.middle_attention)
        self.up = nn.ModuleList(
            UpLevel(inside, outside, ladder.blocks + 1, ladder.lowest_attention and level == last, level == 0)
            for level, (outside, inside) in enumerate(zip(sizes, [*sizes[1:], sizes[-1]], strict=True))
        )
        self.norm_out, self.conv_out = norm(sizes[0]), conv(sizes[0], ladder.colours)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mid(self.conv_in(x))
        for level in reversed(self.up):
            x = level(x)
        return self.conv_out(F.silu(self.norm_out(x)))
