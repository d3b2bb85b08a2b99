"""How much a guidance text looks at what is remembered: the attention of its words, layer by layer.

As the released HERMES code does it: the bare word embeddings are put to every layer, without a causal mask.
Shapes: n remembered keys, Q guidance tokens, Hq query heads, H key heads, D head dim, N = n + Q.
"""

from dataclasses import dataclass, field

import torch
from einops import rearrange
from torch import Tensor

from streamgen.models.vlm import IntArray, StreamingVLM


@dataclass
class Probe:
    """An `Attend` that stores nothing, remembers where its queries looked, and answers zeros."""

    keys: Tensor  # [n, H, D], remembered
    weights: list[Tensor] = field(default_factory=list)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.weights.append(looked_at(q[0], torch.cat([self.keys, k[0]])))
        return torch.zeros_like(q)

    def store(self, k: Tensor, v: Tensor) -> None:
        """A probe leaves no trace."""


def looked_at(q: Tensor, keys: Tensor) -> Tensor:
    """The mean attention [N] of all queries [Q, Hq, D] and heads to keys [N, H, D]; softmax in fp32."""
    grouped = rearrange(q, "q (h g) d -> h (g q) d", h=keys.shape[1])
    scores = grouped @ rearrange(keys, "n h d -> h d n") * q.shape[-1] ** -0.5
    wide = torch.promote_types(scores.dtype, torch.float32)
    return scores.softmax(-1, dtype=wide).flatten(0, 1).mean(0)


def attention_to(
    model: StreamingVLM, layer: int, embeds: Tensor, positions: IntArray, keys: Tensor
) -> Tensor:
    """How much a text [1, Q, dim] at these positions looks at each remembered key of a layer: fp32 [n]."""
    probe = Probe(keys)
    attends: list[Probe | None] = [None] * model.layers
    attends[layer] = probe
    model.listen(layer, embeds, positions, attends)
    [weights] = probe.weights
    return weights[: len(keys)]
