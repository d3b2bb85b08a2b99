"""Where one layer's staged keys and values go, and how a view's tokens are read: what all kernels share.

Shapes: B caches, T staged tokens, N visible tokens, H kv heads, D head dim, P pages, S page size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from streamgen.attention.contract import Attend, MaskKind, Staged, mask_kind, widest
from streamgen.kv.masks import Mask
from streamgen.kv.table import IntArray
from streamgen.kv.view import TableKV, View, slot_runs

Prepared = TypeVar("Prepared")


@dataclass(frozen=True)
class Memory:
    """One layer of the pool. Everything is read and written through k and v themselves, never through views
    kept beside them: a compiled graph may take two overlapping inputs apart and then read stale keys."""

    k: Tensor  # [P*S, H, D]
    v: Tensor
    staged: "Spots"

    def write(self, k: Tensor, v: Tensor) -> None:
        """Put fresh keys and values [B, T, H, D] in the staged slots."""
        staged = self.staged
        if k.shape != staged.shape or k.dtype != self.k.dtype:
            self._refuse(k)
        for flat, fresh in ((self.k, k), (self.v, v)):
            known = (fresh.detach() if fresh.requires_grad else fresh).flatten(0, 1)  # [B*T, H, D]
            # A stretch is copied several times faster, but its place would be a constant of a compiled graph.
            if staged.run is None or torch.compiler.is_compiling():
                flat.index_copy_(0, staged.slots, known)
            else:
                flat[staged.run[0] : staged.run[1]].copy_(known)

    def _refuse(self, k: Tensor) -> None:
        if k.shape != self.staged.shape:
            raise ValueError(
                f"Keys of shape {list(k.shape)} were given and the stage was opened for "
                f"{list(self.staged.shape)} (caches, tokens, kv heads, head dim); stage as many tokens as "
                "the model computes."
            )
        raise ValueError(
            f"The model computes keys in {k.dtype} and the pool keeps {self.k.dtype}; "
            f"build the pool with dtype={k.dtype} or move the model to {self.k.dtype}."
        )

    def refuse_other_queries(self, q: Tensor, kind: MaskKind) -> None:
        staged = self.staged.tokens
        if kind != "full" and q.shape[1] != staged:
            raise ValueError(
                f"{q.shape[1]} queries were given for {staged} staged tokens under a {kind} mask; "
                "only a Full mask lets their numbers differ."
            )


@dataclass(frozen=True)
class Spots:
    """Where the staged tokens of a batch go, the same in every layer of a table."""

    slots: Tensor  # int64 [B*T]
    run: tuple[int, int] | None  # the same as one stretch, start and stop
    shape: tuple[int, int, int, int]  # of the fresh keys: B, T, H, D

    @property
    def tokens(self) -> int:
        return self.shape[1]


@dataclass(frozen=True)
class Group:
    """The caches of a batch as the layers of one table see them."""

    views: tuple[View, ...]
    masks: tuple[Mask, ...]
    kind: MaskKind  # the widest of all
    staged: Spots
    dtype: torch.dtype
    q_heads: int
    kv_heads: int
    head_dim: int
    pool_slots: int  # P*S

    @property
    def tokens(self) -> int:
        return self.staged.tokens

    @property
    def device(self) -> torch.device:
        return self.staged.slots.device

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(view.past + view.tokens for view in self.views)

    def dense(self, index: int) -> Tensor | None:
        """bool [T, N] of one cache in logical order, or None when everything is visible."""
        view = self.views[index]
        return self.masks[index].dense(view.past, view.tokens, self.device)


@dataclass(frozen=True)
class Reach:
    """How one cache's visible tokens are read: a stretch where it lies, or slots copied together."""

    start: int
    stop: int
    slots: Tensor | None  # None: the stretch start .. stop

    def of(self, flat: Tensor) -> Tensor:
        """[P*S, H, D] -> [N, H, D]."""
        return flat[self.start : self.stop] if self.slots is None else flat.index_select(0, self.slots)

    def heads(self, flat: Tensor) -> Tensor:
        """[P*S, H, D] -> [1, H, N, D]; einops would take as long as a short attention."""
        return self.of(flat).transpose(0, 1).unsqueeze(0)


def reach(view: View) -> Reach:
    """One stretch is read in place, in slot order; anything else is copied together in logical order."""
    if len(view.runs) == 1:
        return Reach(*view.runs[0], None)
    return Reach(0, view.past + view.tokens, view.slots)


def reach_slots(slots: IntArray, device: torch.device) -> Reach:
    """Some tokens in logical order: in place where they are one stretch, else copied together."""
    runs = slot_runs(slots)
    if len(runs) == 1:
        return Reach(*runs[0], None)
    return Reach(0, len(slots), torch.from_numpy(slots).to(device))


def reach_mask(group: Group, index: int) -> Tensor | None:
    """bool [T, N] in the order in which `reach` reads, or None when everything is visible."""
    view = group.views[index]
    if mask_kind(group.masks[index], view) == "full":
        return None
    dense = group.dense(index)
    if dense is None or len(view.runs) > 1:
        return dense
    return dense[:, torch.from_numpy(np.argsort(view.visible.slots)).to(dense.device)]


def each_layer(
    stages: Sequence[Staged],
    q_heads: int,
    prepare: Callable[[Group], Prepared],
    bind: Callable[[Memory, Prepared], Attend],
) -> list[Attend]:
    """One Attend a layer; the work for a view is done once for all the layers that share it."""
    refuse_uneven(stages)
    attends: list[Attend] = []
    for tables in zip(*[stage.tables for stage in stages], strict=True):
        refuse_two_pools(tables)
        flat = tables[0].flat
        group = _group(stages, tuple(table.view for table in tables), q_heads, flat[0][0])
        prepared = prepare(group)
        attends += [bind(Memory(k, v, group.staged), prepared) for k, v in flat]
    return attends


def _group(stages: Sequence[Staged], views: tuple[View, ...], q_heads: int, k: Tensor) -> Group:
    masks = tuple(stage.mask for stage in stages)
    kind = widest([mask_kind(mask, view) for mask, view in zip(masks, views, strict=True)])
    pool_slots, kv_heads, head_dim = k.shape
    shape = len(views), views[0].tokens, kv_heads, head_dim
    if len(views) == 1:
        spots = Spots(views[0].staged, views[0].staged_run, shape)
    else:
        spots = Spots(torch.cat([view.staged for view in views]), None, shape)
    return Group(views, masks, kind, spots, k.dtype, q_heads, kv_heads, head_dim, pool_slots)


def refuse_uneven(stages: Sequence[Staged]) -> None:
    """A batch has one number of staged tokens."""
    if not stages:
        raise ValueError("No stages were given; plan needs the open stage of at least one cache.")
    tokens = {stage.tokens for stage in stages}
    if len(tokens) > 1:
        raise ValueError(
            f"Stages of {sorted(tokens)} tokens cannot be attended to in one batch; plan them apart."
        )


def refuse_two_pools(tables: Sequence[TableKV]) -> None:
    if any(table.flat is not tables[0].flat for table in tables):
        raise ValueError(
            "The caches of one batch lie in different pools; open them on one PagePool, or plan them apart."
        )
