"""An `Attend` a layer over plain concatenated tensors: the oracle for models that stream.

Shapes: B streams, T new tokens, n tokens in all, Hq query heads, H key heads, D head dim.
"""

import torch
from torch import Tensor
from torch.nn import functional


class DenseAttend:
    """Remembers everything it is given; causal from the bottom right corner."""

    def __init__(self) -> None:
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def store(self, k: Tensor, v: Tensor) -> None:
        self.k = k if self.k is None else torch.cat([self.k, k], dim=1)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=1)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.store(k, v)
        assert self.k is not None and self.v is not None
        tokens, keys = q.shape[1], self.k.shape[1]
        mask = torch.ones(tokens, keys, dtype=torch.bool).tril(keys - tokens)
        out = functional.scaled_dot_product_attention(
            q.transpose(1, 2),
            self.k.transpose(1, 2),
            self.v.transpose(1, 2),
            attn_mask=None if tokens == 1 else mask,
            enable_gqa=True,
        )
        return out.transpose(1, 2)
