"""The oracle: gather, dense scores, softmax, in float32 (float64 for float64 caches). Slow on purpose.

Shapes: B caches, Q queries, N visible tokens, H kv heads, G query heads to each of them, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from einops import einsum, rearrange
from torch import Tensor

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.memory import Group, Memory, each_layer


@dataclass(frozen=True)
class Reference:
    name: str = "reference"
    softcap: float = 0.0
    masks: frozenset[MaskKind] = frozenset(MASKS)
    paged: bool = False

    def absent(self) -> Lack | None:
        return None

    def lacks(self, need: Need) -> Lack | None:
        return None

    def detours(self, need: Need) -> bool:
        return True

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return each_layer(stages, q_heads, _prepare, partial(_ReferenceAttend, softcap=self.softcap))


@dataclass(frozen=True)
class _Gathered:
    kind: MaskKind
    slots: tuple[Tensor, ...]  # int64 [N] for each cache
    masks: tuple[Tensor | None, ...]  # bool [T, N]


def _prepare(group: Group) -> _Gathered:
    masks = tuple(group.dense(index) for index in range(len(group.views)))
    return _Gathered(group.kind, tuple(view.slots for view in group.views), masks)


@dataclass(frozen=True)
class _ReferenceAttend:
    memory: Memory
    gathered: _Gathered
    softcap: float

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.memory.refuse_other_queries(q, self.gathered.kind)
        self.memory.write(k, v)
        return torch.stack(
            [
                dense_attention(one, self.memory.k[slots], self.memory.v[slots], mask, self.softcap)
                for one, slots, mask in zip(q, self.gathered.slots, self.gathered.masks, strict=True)
            ]
        )

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)


def dense_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, softcap: float = 0.0) -> Tensor:
    """Textbook attention: q [Q, Hq, D], k and v [N, H, D], mask bool [Q, N] -> [Q, Hq, D]."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    grouped = rearrange(q.to(wide), "q (h g) d -> h g q d", h=k.shape[1])
    scores = einsum(grouped, k.to(wide), "h g q d, n h d -> h g q n") * q.shape[-1] ** -0.5
    if softcap:
        scores = softcap * (scores / softcap).tanh()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    out = einsum(scores.softmax(-1), v.to(wide), "h g q n, n h d -> q h g d")
    return rearrange(out, "q h g d -> q (h g) d").to(q.dtype)
