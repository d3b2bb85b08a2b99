"""torch's scaled_dot_product_attention: one stretch in place, scattered tokens copied together first.

Shapes: B caches, Q queries, N visible tokens, Hq query heads, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, stack

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.memory import Group, Memory, Reach, each_layer, reach, reach_mask


@dataclass(frozen=True)
class Sdpa:
    name: str = "sdpa"
    masks: frozenset[MaskKind] = frozenset(MASKS)
    paged: bool = False

    def absent(self) -> Lack | None:
        return None

    def lacks(self, need: Need) -> Lack | None:
        return None

    def detours(self, need: Need) -> bool:
        return not need.one_run

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return each_layer(stages, q_heads, _prepare, _SdpaAttend)


@dataclass(frozen=True)
class _Reached:
    kind: MaskKind
    reaches: tuple[Reach, ...]
    masks: tuple[Tensor | None, ...]  # bool [T, N]


def _prepare(group: Group) -> _Reached:
    count = range(len(group.views))
    masks = tuple(reach_mask(group, index) for index in count)
    return _Reached(group.kind, tuple(reach(view) for view in group.views), masks)


@dataclass(frozen=True)
class _SdpaAttend:
    memory: Memory
    reached: _Reached

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.memory.refuse_other_queries(q, self.reached.kind)
        self.memory.write(k, v)
        return stack([self._one(q[index], index) for index in range(self.memory.batch)])

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)

    def _one(self, q: Tensor, index: int) -> Tensor:
        visible = self.reached.reaches[index]
        out = F.scaled_dot_product_attention(
            rearrange(q, "q h d -> 1 h q d"),
            rearrange(visible.of(self.memory.k), "n h d -> 1 h n d"),
            rearrange(visible.of(self.memory.v), "n h d -> 1 h n d"),
            attn_mask=self.reached.masks[index],
            enable_gqa=q.shape[1] != self.memory.k.shape[1],
        )
        return rearrange(out, "1 h q d -> q h d")
