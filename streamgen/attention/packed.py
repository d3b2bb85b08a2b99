"""Ragged caches as one packed batch, for kernels that take cumulative lengths or a block table.

Shapes: B caches, Q queries, T staged, N visible tokens, M pages of the longest view, P pages, S page size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor

from streamgen.attention.contract import MaskKind, mask_kind
from streamgen.attention.memory import Group, Memory, Reach, reach
from streamgen.kv.masks import Causal


@dataclass(frozen=True)
class Packed:
    """Lengths and places of a batch; `table` is None when the keys are read as one packed row instead."""

    kind: MaskKind
    causal: bool
    window: int | None  # counts the query itself
    tokens: int
    lengths: tuple[int, ...]
    steps: Tensor  # int32 [B+1]: 0, 1 .. B
    cu_q: Tensor  # int32 [B+1], for Q == T
    cu_k: Tensor  # int32 [B+1]
    used: Tensor  # int32 [B]
    row: Reach | None
    table: Tensor | None  # int32 [B, M]
    page_size: int

    @property
    def longest(self) -> int:
        return max(self.lengths)

    @property
    def left_right(self) -> tuple[int, int]:
        """The window in flash-attention's terms: keys left and right of the query, itself not counted."""
        if not self.causal:
            return -1, -1
        return (-1 if self.window is None else self.window - 1), 0

    def starts(self, queries: int) -> Tensor:
        return self.cu_q if queries == self.tokens else self.steps * queries

    def keys(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """[P, S, H, D] to be read through the table, or [sum N, H, D]."""
        if self.row is not None:
            return self.row.of(memory.k), self.row.of(memory.v)
        paged = "(p s) h d -> p s h d"
        return rearrange(memory.k, paged, s=self.page_size), rearrange(memory.v, paged, s=self.page_size)


def pack(group: Group, pages: bool) -> Packed:
    """pages: read whole pages through a block table where every view is made of them."""
    causal, window = native_order(group)
    lengths = group.lengths
    through_pages = pages and all(view.pages is not None for view in group.views)
    used = torch.tensor(lengths, dtype=torch.int32)
    steps = torch.arange(len(lengths) + 1, dtype=torch.int32)
    ends = torch.cat([torch.zeros(1, dtype=torch.int32), used.cumsum(0, dtype=torch.int32)])
    return Packed(
        kind=group.kind,
        causal=causal,
        window=window,
        tokens=group.tokens,
        lengths=lengths,
        steps=steps.to(group.device),
        cu_q=(steps * group.tokens).to(group.device),
        cu_k=ends.to(group.device),
        used=used.to(group.device),
        row=None if through_pages else _row(group),
        table=_table(group) if through_pages else None,
        page_size=group.views[0].page_size,
    )


def native_order(group: Group) -> tuple[bool, int | None]:
    """(causal, window) for kernels that take one of each for the whole batch."""
    kinds = [mask_kind(mask, view) for mask, view in zip(group.masks, group.views, strict=True)]
    if set(kinds) == {"full"}:
        return False, None
    windows = {
        mask.window
        for mask, kind in zip(group.masks, kinds, strict=True)
        if kind == "window" and isinstance(mask, Causal) and mask.window is not None
    }
    window = min(windows, default=None)
    cut = window is not None and any(
        kind != "window" and length > window for kind, length in zip(kinds, group.lengths, strict=True)
    )
    looks_ahead = group.tokens > 1 and "full" in kinds
    if len(windows) > 1 or cut or looks_ahead or not set(kinds) <= {"full", "causal", "window"}:
        raise ValueError(
            f"One batch of this kernel takes one order for all its caches and was given {set(group.masks)}; "
            "plan caches with different masks apart, or choose 'sdpa'."
        )
    return True, window


def _row(group: Group) -> Reach:
    """Full attention ignores key order, so a lone stretch is read where it lies; the rest is copied."""
    if len(group.views) == 1 and group.kind == "full":
        return reach(group.views[0])
    return Reach(0, sum(group.lengths), torch.cat([view.slots for view in group.views]))


def _table(group: Group) -> Tensor:
    return padded([view.pages for view in group.views if view.pages is not None])


def places(group: Group) -> tuple[list[Tensor], int]:
    """Where each view's tokens are, int32, and tokens per place: pages if all have them, else slots."""
    pages = [view.pages for view in group.views if view.pages is not None]
    if len(pages) == len(group.views):
        return pages, group.views[0].page_size
    return [view.slots.int() for view in group.views], 1


def padded(rows: Sequence[Tensor]) -> Tensor:
    """Rows of different lengths as one table [B, M], zeros after their ends."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
