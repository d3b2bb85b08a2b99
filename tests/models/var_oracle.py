"""The plain forward of VAR: all scales at once under one mask, nothing cached.

Shapes: B sequences, L tokens of all scales, H heads, D head dim, V vocabulary.
"""

from collections.abc import Sequence

import torch
from einops import einsum
from torch import Tensor

from streamgen.models.var import VAR


class MaskedAttend:
    """Textbook attention in which a token sees its own scale and the ones before it."""

    def __init__(self, patches: Sequence[int]) -> None:
        level = torch.cat([torch.full((side * side,), scale) for scale, side in enumerate(patches)])
        self.visible = level[:, None] >= level[None, :]

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = einsum(q, k, "b q h d, b n h d -> b h q n") * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~self.visible, float("-inf"))
        return einsum(scores.softmax(-1), v, "b h q n, b n h d -> b q h d")

    def store(self, k: Tensor, v: Tensor) -> None:
        raise AssertionError("the plain forward stores nothing")


def teacher_forced(model: VAR, labels: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """Logits [B, L, V], given the input maps [B, Z, p, p] of every scale but the first."""
    condition = model.condition(labels)
    later = [model.embed(scale, latent) for scale, latent in enumerate(maps, start=1)]
    x = torch.cat([model.first(condition), *later], dim=1)
    return model(x, condition, [MaskedAttend(model.config.patches)] * model.config.depth)
