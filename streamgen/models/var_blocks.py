"""The block of VAR: attention and MLP, both modulated by the class (AdaLN).

Parameters carry their published names.
Shapes: B sequences, T tokens of a scale, C width, H heads, D head dim.
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from streamgen.models.attend import Attend

NORM_EPS = 1e-6
LOUDEST = math.log(100)  # ceiling of the learned log scale of the queries


class ScaledAttention(nn.Module):
    """Queries and keys of unit length, and a learned scale on the queries of each head."""

    def __init__(self, width: int, heads: int, unit_length: bool) -> None:
        super().__init__()
        self.heads = heads
        self.scale_mul_1H11: nn.Parameter | None
        self.mat_qkv = nn.Linear(width, 3 * width, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(width))
        self.v_bias = nn.Parameter(torch.zeros(width))
        self.proj = nn.Linear(width, width)
        scale = nn.Parameter(torch.full((1, heads, 1, 1), math.log(4))) if unit_length else None
        self.register_parameter("scale_mul_1H11", scale)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        q, k, v = self.query_key_value(x)
        return self.proj(rearrange(attend(q, k, v), "b t h d -> b t (h d)"))

    def query_key_value(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, C] -> three of [B, T, H, D], for an attention that divides by the root of D."""
        bias = torch.cat((self.q_bias, torch.zeros_like(self.q_bias), self.v_bias))
        qkv = F.linear(x, self.mat_qkv.weight, bias)
        q, k, v = rearrange(qkv, "b t (n h d) -> n b t h d", n=3, h=self.heads).unbind(0)
        scale = self.scale_mul_1H11
        if scale is None:
            return q * 0.25, k, v
        loudness = scale.clamp_max(LOUDEST).exp() * q.shape[-1] ** 0.5
        q = (F.normalize(q.float(), dim=-1) * rearrange(loudness, "1 h 1 1 -> h 1")).type_as(v)
        return q, F.normalize(k.float(), dim=-1).type_as(v), v


class FeedForward(nn.Module):
    """Two layers with a tanh GELU between them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class AdaptiveBlock(nn.Module):
    """One layer; `modulation` [B, 6, C] holds two gates, two scales and two shifts."""

    def __init__(self, width: int, heads: int, hidden: int, unit_length: bool, shared: bool) -> None:
        super().__init__()
        self.attn = ScaledAttention(width, heads, unit_length)
        self.ffn = FeedForward(width, hidden)
        if shared:
            self.ada_gss = nn.Parameter(torch.zeros(1, 1, 6, width))
        else:
            self.ada_lin = adaptive(width, 6)

    def forward(self, x: Tensor, modulation: Tensor, attend: Attend) -> Tensor:
        gate1, gate2, scale1, scale2, shift1, shift2 = modulation[:, :, None].unbind(1)
        dtype = self.attn.proj.weight.dtype
        x = x + gate1 * self.attn(modulate(x, scale1, shift1).to(dtype), attend)
        return x + gate2 * self.ffn(modulate(x, scale2, shift2).to(dtype))


class AdaptiveNorm(nn.Module):
    """The norm before the head; `modulation` [B, 2, C] holds a scale and a shift."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ada_lin = adaptive(width, 2)

    def forward(self, x: Tensor, modulation: Tensor) -> Tensor:
        scale, shift = modulation[:, :, None].unbind(1)
        return modulate(x, scale, shift)


def adaptive(width: int, vectors: int) -> nn.Sequential:
    """From a class vector to so many vectors of modulation."""
    return nn.Sequential(nn.SiLU(), nn.Linear(width, vectors * width))


def modulate(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """A norm without weights of its own, then the class's scale (its 1 included) and shift."""
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=NORM_EPS), scale)
