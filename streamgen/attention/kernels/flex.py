"""torch's flex_attention: whole pages through a block mask over the pool, other views through `reach`.

Run by itself it computes every score of what it is given, a whole pool for paged views: it is meant to sit
inside a torch.compile'd block, where it becomes one fused kernel that skips the pages nobody sees.
Shapes: B caches, Q queries, T staged, N visible tokens, P pages, S page size, M pages of a view, D head dim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.memory import Group, Memory, Reach, each_layer, reach, reach_mask
from streamgen.kv.view import View

QUERY_BLOCK = 128


@dataclass(frozen=True)
class Flex:
    name: str = "flex"
    softcap: float = 0.0
    masks: frozenset[MaskKind] = frozenset(MASKS)
    paged: bool = True

    def absent(self) -> Lack | None:
        return None

    def lacks(self, need: Need) -> Lack | None:
        if need.device not in ("cpu", "cuda"):
            return Lack(f"'flex' has no operator for {need.device}", "choose 'sdpa'")
        return None

    def detours(self, need: Need) -> bool:
        return not (need.paged or need.one_run)

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return each_layer(stages, q_heads, _prepare, partial(_FlexAttend, softcap=self.softcap))


@dataclass(frozen=True)
class _Pages:
    """A view found through its pages, and the place of each pool slot in the stream (-1: not in it)."""

    pages: Tensor  # int32 [M]
    places: Tensor  # int64 [P*S]
    page_size: int
    dense: Tensor | None  # bool [T, N]

    def block_mask(self, queries: int) -> BlockMask:
        rows, (count,) = -(-queries // QUERY_BLOCK), self.pages.shape
        places, dense = self.places, self.dense

        def visible(b: Tensor, h: Tensor, q: Tensor, slot: Tensor) -> Tensor:
            held = places[slot] >= 0
            return held if dense is None else held & dense[q, places[slot].clamp(min=0)]

        table = torch.zeros(len(places) // self.page_size, dtype=torch.int32, device=places.device)
        table[:count] = self.pages
        counts = torch.full((1, 1, rows), count, dtype=torch.int32, device=places.device)
        return BlockMask.from_kv_blocks(
            counts,
            table.expand(1, 1, rows, -1).contiguous(),
            BLOCK_SIZE=(QUERY_BLOCK, self.page_size),
            mask_mod=visible,
            seq_lengths=(queries, len(places)),
        )


@dataclass(frozen=True)
class _Look:
    """How one cache is looked at: through its pages, or through a reach with or without a mask."""

    reach: Reach | None
    pages: _Pages | None
    blocks: BlockMask | None


@dataclass(frozen=True)
class _Prepared:
    kind: MaskKind
    looks: tuple[_Look, ...]


def _prepare(group: Group) -> _Prepared:
    return _Prepared(group.kind, tuple(_look(group, index) for index in range(len(group.views))))


def _look(group: Group, index: int) -> _Look:
    view = group.views[index]
    if view.pages is not None:
        pages = _pages(view, group.pool_slots, group.dense(index))
        return _Look(None, pages, pages.block_mask(group.tokens))
    mask = reach_mask(group, index)
    if mask is None:
        return _Look(reach(view), None, None)

    def visible(b: Tensor, h: Tensor, q: Tensor, n: Tensor) -> Tensor:
        return mask[q, n]

    queries, keys = mask.shape
    blocks = create_block_mask(visible, 1, 1, queries, keys, device=str(mask.device))
    return _Look(reach(view), None, blocks)


def _pages(view: View, pool_slots: int, dense: Tensor | None) -> _Pages:
    assert view.pages is not None, "only a page-shaped view is found through its pages"
    places = torch.full((pool_slots,), -1, dtype=torch.int64, device=view.slots.device)
    places[view.slots] = torch.arange(len(view.slots), device=view.slots.device)
    return _Pages(view.pages, places, view.page_size, dense)


@dataclass(frozen=True)
class _FlexAttend:
    memory: Memory
    prepared: _Prepared
    softcap: float

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.memory.refuse_other_queries(q, self.prepared.kind)
        self.memory.write(k, v)
        return torch.stack([self._one(q[index], look) for index, look in enumerate(self.prepared.looks)])

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)

    def _one(self, q: Tensor, look: _Look) -> Tensor:
        k, v, blocks = self.memory.k, self.memory.v, look.blocks
        if look.reach is not None:
            k, v = look.reach.of(k), look.reach.of(v)
        elif look.pages is not None and q.shape[0] != self.memory.staged.tokens:
            blocks = look.pages.block_mask(q.shape[0])
        out = flex_attention(
            rearrange(q, "q h d -> 1 h q d"),
            rearrange(k, "n h d -> 1 h n d"),
            rearrange(v, "n h d -> 1 h n d"),
            score_mod=_capping(self.softcap) if self.softcap else None,
            block_mask=blocks,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        assert isinstance(out, Tensor), "flex_attention answers with a tensor when no LSE is asked for"
        return rearrange(out, "1 h q d -> q h d")


def _capping(softcap: float) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    def capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, n: Tensor) -> Tensor:
        return softcap * torch.tanh(score / softcap)

    return capped
