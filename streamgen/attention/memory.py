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
from streamgen.kv.view import LayerKV, View, slot_runs

Prepared = TypeVar("Prepared")


@dataclass(frozen=True)
class Memory:
    """One layer of the pool. Everything is read and written through k and v themselves, never through views
    kept beside them: a compiled graph may take two overlapping inputs apart and then read stale keys."""

    k: Tensor  # [P*S, H, D]
    v: Tensor
    slots: Tensor  # int64 [B*T], where the staged tokens go
    run: tuple[int, int] | None  # the same as one stretch, start and stop
    batch: int
    tokens: int

    def write(self, k: Tensor, v: Tensor) -> None:
        """Put fresh keys and values [B, T, H, D] in the staged slots."""
        self.refuse_other_shapes(k)
        for flat, fresh in ((self.k, k), (self.v, v)):
            known = fresh.detach() if fresh.requires_grad else fresh
            self._put(flat, known.flatten(0, 1))  # [B*T, H, D]

    def _put(self, flat: Tensor, fresh: Tensor) -> None:
        # A stretch is copied several times faster, but its place would be a constant of a compiled graph.
        if torch.compiler.is_compiling() or self.run is None:
            flat.index_copy_(0, self.slots, fresh)
        else:
            flat[self.run[0] : self.run[1]].copy_(fresh)

    def refuse_other_shapes(self, k: Tensor) -> None:
        expected = (self.batch, self.tokens, *self.k.shape[1:])
        if tuple(k.shape) != expected:
            raise ValueError(
                f"Keys of shape {list(k.shape)} were given and the stage was opened for {list(expected)} "
                "(caches, tokens, kv heads, head dim); stage as many tokens as the model computes."
            )
        if k.dtype != self.k.dtype:
            raise ValueError(
                f"The model computes keys in {k.dtype} and the pool keeps {self.k.dtype}; "
                f"build the pool with dtype={k.dtype} or move the model to {self.k.dtype}."
            )

    def refuse_other_queries(self, q: Tensor, kind: MaskKind) -> None:
        if kind != "full" and q.shape[1] != self.tokens:
            raise ValueError(
                f"{q.shape[1]} queries were given for {self.tokens} staged tokens under a {kind} mask; "
                "only a Full mask lets their numbers differ."
            )


@dataclass(frozen=True)
class Group:
    """The caches of a batch as the layers of one table see them."""

    views: tuple[View, ...]
    masks: tuple[Mask, ...]
    kind: MaskKind  # the widest of all
    tokens: int
    slots: Tensor  # int64 [B*T], where the staged tokens go
    dtype: torch.dtype
    q_heads: int
    kv_heads: int
    head_dim: int
    pool_slots: int  # P*S

    @property
    def device(self) -> torch.device:
        return self.slots.device

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
    length: int
    slots: Tensor | None  # None: the stretch start .. start + length

    def of(self, flat: Tensor) -> Tensor:
        """[P*S, H, D] -> [N, H, D]."""
        if self.slots is None:
            return flat.narrow(0, self.start, self.length)
        return flat.index_select(0, self.slots)


def reach(view: View) -> Reach:
    """One stretch is read in place, in slot order; anything else is copied together in logical order."""
    if len(view.runs) == 1:
        start, stop = view.runs[0]
        return Reach(start, stop - start, None)
    return Reach(0, view.past + view.tokens, view.slots)


def reach_slots(slots: IntArray, device: torch.device) -> Reach:
    """Some tokens in logical order: in place where they are one stretch, else copied together."""
    runs = slot_runs(slots)
    if len(runs) == 1:
        return Reach(runs[0][0], len(slots), None)
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
    done: dict[tuple[int, ...], tuple[Group, Prepared]] = {}
    attends = []
    for layers in zip(*[stage.layers() for stage in stages], strict=True):
        views = tuple(layer.view for layer in layers)
        key = tuple(map(id, views))
        if key not in done:
            group = _group(stages, views, q_heads, layers[0].k)
            done[key] = group, prepare(group)
        group, prepared = done[key]
        refuse_two_pools([layer.k for layer in layers])
        attends.append(bind(_memory(layers[0], group), prepared))
    return attends


def _memory(layer: LayerKV, group: Group) -> Memory:
    run = group.views[0].staged_run if len(group.views) == 1 else None
    return Memory(layer.k, layer.v, group.slots, run, len(group.views), group.tokens)


def _group(stages: Sequence[Staged], views: tuple[View, ...], q_heads: int, k: Tensor) -> Group:
    masks = tuple(stage.mask for stage in stages)
    kind = widest([mask_kind(mask, view) for mask, view in zip(masks, views, strict=True)])
    slots = views[0].staged if len(views) == 1 else torch.cat([view.staged for view in views])
    pool_slots, kv_heads, head_dim = k.shape
    return Group(
        views, masks, kind, stages[0].tokens, slots, k.dtype, q_heads, kv_heads, head_dim, pool_slots
    )


def refuse_uneven(stages: Sequence[Staged]) -> None:
    """A batch has one number of staged tokens."""
    if not stages:
        raise ValueError("No stages were given; plan needs the open stage of at least one cache.")
    tokens = {stage.tokens for stage in stages}
    if len(tokens) > 1:
        raise ValueError(
            f"Stages of {sorted(tokens)} tokens cannot be attended to in one batch; plan them apart."
        )


def refuse_two_pools(keys: Sequence[Tensor]) -> None:
    if any(k is not keys[0] and k.data_ptr() != keys[0].data_ptr() for k in keys):
        raise ValueError(
            "The caches of one batch lie in different pools; open them on one PagePool, or plan them apart."
        )
