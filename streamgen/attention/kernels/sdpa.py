"""torch's scaled_dot_product_attention: one stretch in place, scattered tokens copied together first.

Shapes: B caches, Q queries, N visible tokens, Hq query heads, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, stack

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged, mask_kind
from streamgen.attention.memory import Group, Memory, Reach, each_layer, reach, reach_mask
from streamgen.kv.view import View


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
    plain: tuple[bool, ...]  # causal without a past or a mask: torch knows this order by itself


def _prepare(group: Group) -> _Reached:
    plain = tuple(
        mask_kind(mask, view) == "causal" and view.past == 0 and _in_order(view)
        for mask, view in zip(group.masks, group.views, strict=True)
    )
    masks = tuple(None if known else reach_mask(group, index) for index, known in enumerate(plain))
    return _Reached(group.kind, tuple(reach(view) for view in group.views), masks, plain)


def _in_order(view: View) -> bool:
    """Read in logical order: `reach` reads a lone stretch by rising slot and the rest as it comes."""
    return len(view.runs) > 1 or view.staged_run is not None


@dataclass(frozen=True)
class _SdpaAttend:
    memory: Memory
    reached: _Reached

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.memory.refuse_other_queries(q, self.reached.kind)
        self.memory.write(k, v)
        if self.memory.batch == 1:
            return self._one(q[0], 0).unsqueeze(0)
        return stack([self._one(q[index], index) for index in range(self.memory.batch)])

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)

    def _one(self, q: Tensor, index: int) -> Tensor:
        visible = self.reached.reaches[index]
        out = F.scaled_dot_product_attention(
            _heads_first(q),
            _heads_first(visible.of(self.memory.k)),
            _heads_first(visible.of(self.memory.v)),
            attn_mask=self.reached.masks[index],
            is_causal=self.reached.plain[index],
            enable_gqa=q.shape[1] != self.memory.k.shape[1],
        )
        return out[0].transpose(0, 1)


def _heads_first(x: Tensor) -> Tensor:
    """[n, H, D] -> [1, H, n, D]; einops would take as long as a short attention."""
    return x.transpose(0, 1).unsqueeze(0)
