"""Which token to take: guidance, top-k, top-p, draws and soft mixes. Pure functions.

Shapes: B images, n tokens of an image, V vocabulary, Z channels of a code.
"""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

HIDDEN = float("-inf")
COOLEST, WARMEST, COOLING = 0.005, 0.27, 0.95  # of the soft mix, over the scales


def guide(told: Tensor, untold: Tensor, strength: float) -> Tensor:
    """Away from what a model says without the class: strength 0 changes nothing."""
    return (1 + strength) * told - strength * untold


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Hide all but the k likeliest of V, and ties with the last of them; 0 hides nothing."""
    if k == 0:
        return logits
    least = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < least, HIDDEN)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Hide the unlikeliest that together have at most 1 - p, never the best one; 0 hides nothing."""
    if p == 0:
        return logits
    ordered, index = logits.sort(dim=-1)
    rare = ordered.softmax(-1).cumsum(-1) <= 1 - p
    rare[..., -1] = False
    return logits.masked_fill(rare.scatter(-1, index, rare), HIDDEN)


def exponential(shape: Sequence[int], generators: Sequence[Generator]) -> Tensor:
    """Noise [B, *shape], each image from its own generator on the CPU: the same alone or in any batch."""
    rows = [torch.empty(*shape).exponential_(generator=generator) for generator in generators]
    return torch.stack(rows)


def draw(logits: Tensor, noise: Tensor) -> Tensor:
    """Tokens [B, n] by the race of exponentials, which is what `torch.multinomial` runs for one sample."""
    return (logits.softmax(-1) / noise).argmax(-1)


def soft_codes(logits: Tensor, noise: Tensor, codebook: Tensor, progress: float) -> Tensor:
    """A mix of codes [B, n, Z] instead of one: Gumbel-softmax that cools down over the scales.

    noise: Gumbel [B, n, V]; progress: 0 at the first scale, 1 at the last.
    """
    weights = ((logits * (1 + progress) + noise) / heat(progress)).softmax(-1)
    return weights @ codebook


def heat(progress: float) -> float:
    """How warm the soft mix of a scale is."""
    return max(WARMEST * (1 - COOLING * progress), COOLEST)
