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
        return not need.one_run or bool(need.shared)

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return each_layer(stages, q_heads, _prepare, _SdpaAttend)


@dataclass(frozen=True)
class Row:
    """How one cache of a batch is looked at."""

    reach: Reach
    mask: Tensor | None  # bool [T, N]
    plain: bool  # causal without a past or a mask: torch knows this order by itself

    def look(self, q: Tensor, memory: Memory) -> Tensor:
        """q [Q, Hq, D] -> [Q, Hq, D]."""
        k, v = _heads_first(self.reach.of(memory.k)), _heads_first(self.reach.of(memory.v))
        kv_heads = k.shape[1]
        if len(q) == 1 and self.mask is None and not self.plain:
            # The query heads of a kv head as its queries: keys are read once for all of them.
            out = F.scaled_dot_product_attention(q.view(1, kv_heads, -1, q.shape[2]), k, v)
            return out.reshape(q.shape)
        out = F.scaled_dot_product_attention(
            _heads_first(q),
            k,
            v,
            attn_mask=self.mask,
            is_causal=self.plain,
            enable_gqa=q.shape[1] != kv_heads,
        )
        return out[0].transpose(0, 1)


def row_of(group: Group, index: int) -> Row:
    """Planned once for all layers that share a view."""
    mask, view = group.masks[index], group.views[index]
    plain = mask_kind(mask, view) == "causal" and view.past == 0 and _in_order(view)
    return Row(reach(view), None if plain else reach_mask(group, index), plain)


@dataclass(frozen=True)
class _Reached:
    kind: MaskKind
    rows: tuple[Row, ...]


def _prepare(group: Group) -> _Reached:
    return _Reached(group.kind, tuple(row_of(group, index) for index in range(len(group.views))))


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
            return self.reached.rows[0].look(q[0], self.memory).unsqueeze(0)
        return stack([row.look(one, self.memory) for row, one in zip(self.reached.rows, q, strict=True)])

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)


def _heads_first(x: Tensor) -> Tensor:
    """[n, H, D] -> [1, H, n, D]; einops would take as long as a short attention."""
    return x.transpose(0, 1).unsqueeze(0)
