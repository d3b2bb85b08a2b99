"""torch's scaled_dot_product_attention: one stretch in place, scattered tokens copied together first.

Shapes: B caches, Q queries, N visible tokens, Hq query heads, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from torch import Tensor, cat

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged, mask_kind
from streamgen.attention.memory import Group, Memory, Reach, each_layer, reach, reach_mask
from streamgen.kv.view import View

# torch's CPU operator looks at hundreds of keys at once, those in a query's future too. Measured: cut in
# blocks of queries, a prompt of these lengths is attended to in two thirds to nine tenths of the time.
CAUSAL_BLOCK, BLOCKWISE = 64, range(128, 641)


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
    blocks: tuple[Tensor, ...] = ()  # bool [block, keys so far] of a plain row that is looked at in blocks

    def look(self, q: Tensor, memory: Memory) -> Tensor:
        """q [1, Q, Hq, D] -> [1, Q, Hq, D]."""
        k, v = self.reach.heads(memory.k), self.reach.heads(memory.v)
        _, queries, q_heads, head_dim = q.shape
        kv_heads = k.shape[1]
        if queries == 1 and self.mask is None:
            # The query heads of a kv head as its queries: keys are read once for all of them.
            out = F.scaled_dot_product_attention(q.view(1, kv_heads, -1, head_dim), k, v)
            return out.contiguous().view(q.shape)
        sdpa = partial(F.scaled_dot_product_attention, enable_gqa=q_heads != kv_heads)
        q = q.transpose(1, 2)
        if not self.blocks:
            return sdpa(q, k, v, attn_mask=self.mask, is_causal=self.plain).transpose(1, 2)
        parts = q.split(CAUSAL_BLOCK, dim=2)
        ends = [mask.shape[1] for mask in self.blocks]
        outs = [
            sdpa(part, k[:, :, :end], v[:, :, :end], attn_mask=mask)
            for part, end, mask in zip(parts, ends, self.blocks, strict=True)
        ]
        return cat(outs, dim=2).transpose(1, 2)


def row_of(group: Group, index: int) -> Row:
    """Planned once for all layers that share a view."""
    mask, view = group.masks[index], group.views[index]
    plain = mask_kind(mask, view) == "causal" and view.past == 0 and _in_order(view)
    if not plain:
        return Row(reach(view), reach_mask(group, index), plain)
    return Row(reach(view), None, plain, _causal_blocks(group, index))


def _causal_blocks(group: Group, index: int) -> tuple[Tensor, ...]:
    tokens = group.tokens
    if group.device.type != "cpu" or tokens not in BLOCKWISE:
        return ()
    order = group.dense(index)
    assert order is not None, f"{tokens} tokens in causal order do not all see each other"
    starts = range(0, tokens, CAUSAL_BLOCK)
    return tuple(order[start : (end := min(start + CAUSAL_BLOCK, tokens)), :end] for start in starts)


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
        rows = self.reached.rows
        if len(rows) == 1:
            return rows[0].look(q, self.memory)
        return cat([row.look(one, self.memory) for row, one in zip(rows, q.split(1), strict=True)])

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)
