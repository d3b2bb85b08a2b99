"""A shared beginning is read once for all caches that share it, and merged with what each has of its own.

Cascade attention: the queries of all sharers look at the trunk as one batch, each cache's own tokens are
looked at apart, and the two answers are joined by their log-sum-exp (LSE), which is exact.
Shapes: B caches, R of them on one trunk, T staged tokens, M own tokens of the longest of them, H kv heads,
G query heads to each of them, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.kernels.sdpa import Row, row_of
from streamgen.attention.kernels.segments import CPU_DTYPES, partial_cpu
from streamgen.attention.memory import Group, Memory, Reach, each_layer, reach_slots
from streamgen.attention.trunks import Trunk, trunks


@dataclass(frozen=True)
class Cascade:
    name: str = "cascade"
    masks: frozenset[MaskKind] = frozenset(MASKS)
    paged: bool = True

    def absent(self) -> Lack | None:
        return None

    def lacks(self, need: Need) -> Lack | None:
        if need.device != "cpu":
            return Lack(f"'cascade' has no operator for {need.device}", "choose 'sdpa' or 'varlen'")
        if need.dtype not in CPU_DTYPES:
            names = ", ".join(str(dtype) for dtype in CPU_DTYPES)
            return Lack(f"'cascade' knows {names} and the cache keeps {need.dtype}", "choose 'sdpa'")
        return None

    def detours(self, need: Need) -> bool:
        return not need.shared

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return each_layer(stages, q_heads, _prepare, _CascadeAttend)


@dataclass(frozen=True)
class _Branches:
    """The caches on one trunk: where the trunk lies, and where the tokens behind it."""

    rows: Tensor | None  # int64 [R]; None = the whole batch, in order
    trunk: Reach
    own: Tensor  # int64 [R*M] slots; short caches repeat their last one
    bias: Tensor | None  # [R, 1, T*G or 1, M]: 0 where visible, -inf where not; None = everything is

    def look(self, q: Tensor, memory: Memory) -> Tensor:
        """q [B, T, H*G, D] -> [R, T, H*G, D]."""
        _, kv_heads, head_dim = memory.k.shape
        q = q if self.rows is None else q.index_select(0, self.rows)
        count, tokens, q_heads, _ = q.shape
        # A head's queries side by side: [R, H, T*G, D], and those of all caches: [1, H, R*T*G, D].
        apart = q.unflatten(2, (kv_heads, -1)).transpose(1, 2).flatten(2, 3)
        joint = apart.transpose(0, 1).flatten(1, 2).unsqueeze(0)
        trunk = self.trunk.heads(memory.k), self.trunk.heads(memory.v)
        ours, ours_lse = partial_cpu(joint, *trunk, None, False)
        k, v = (
            flat.index_select(0, self.own).view(count, -1, kv_heads, head_dim).transpose(1, 2)
            for flat in (memory.k, memory.v)
        )
        mine, mine_lse = partial_cpu(apart, k, v, self.bias, False)
        ours, ours_lse = (part[0].unflatten(1, (count, -1)).transpose(0, 1) for part in (ours, ours_lse))
        weight = (ours_lse - mine_lse).sigmoid().unsqueeze(-1)
        out = torch.lerp(mine.to(weight.dtype), ours.to(weight.dtype), weight).to(q.dtype)
        return out.unflatten(2, (tokens, -1)).transpose(1, 2).reshape(count, tokens, q_heads, head_dim)


@dataclass(frozen=True)
class _Alone:
    """A cache that shares nothing."""

    row: Row
    index: int

    def look(self, q: Tensor, memory: Memory) -> Tensor:
        return self.row.look(q.narrow(0, self.index, 1), memory)


@dataclass(frozen=True)
class _Prepared:
    kind: MaskKind
    parts: tuple[_Branches | _Alone, ...]
    order: Tensor | None  # int64 [B]: where each cache's answer is among those of all parts


def _prepare(group: Group) -> _Prepared:
    found = trunks(group.views, group.masks)
    parts = tuple(
        _Alone(row_of(group, trunk.rows[0]), trunk.rows[0])
        if len(trunk.rows) == 1
        else _branches(group, trunk)
        for trunk in found
    )
    rows = [row for trunk in found for row in trunk.rows]
    order = None if rows == sorted(rows) else torch.tensor(np.argsort(rows), device=group.device)
    return _Prepared(group.kind, parts, order)


def _branches(group: Group, trunk: Trunk) -> _Branches:
    views = [group.views[row] for row in trunk.rows]
    own = [view.visible.slots[trunk.tokens :] for view in views]
    longest = max(map(len, own))
    padded = np.stack([np.pad(slots, (0, longest - len(slots)), mode="edge") for slots in own])
    whole = trunk.rows == tuple(range(len(group.views)))
    return _Branches(
        rows=None if whole else torch.tensor(trunk.rows, device=group.device),
        trunk=reach_slots(views[0].visible.slots[: trunk.tokens], group.device),
        own=torch.from_numpy(padded.reshape(-1)).to(group.device),
        bias=_bias(group, trunk, [len(slots) for slots in own]),
    )


def _bias(group: Group, trunk: Trunk, lengths: Sequence[int]) -> Tensor | None:
    masks = [group.dense(row) for row in trunk.rows]
    longest = max(lengths)
    if min(lengths) == longest and all(mask is None for mask in masks):
        return None
    visible = (torch.arange(longest) < torch.tensor(lengths)[:, None])[:, None]  # [R, 1, M]
    if any(mask is not None for mask in masks):
        visible = visible.repeat(1, group.tokens, 1)
        for row, mask, length in zip(visible, masks, lengths, strict=True):
            if mask is not None:
                row[:, :length] = mask[:, trunk.tokens :]
        visible = visible.repeat_interleave(group.q_heads // group.kv_heads, dim=1)
    bias = torch.zeros(visible.shape, dtype=group.dtype).masked_fill(~visible, float("-inf"))
    return bias.unsqueeze(1).to(group.device)


@dataclass(frozen=True)
class _CascadeAttend:
    memory: Memory
    prepared: _Prepared

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.memory.refuse_other_queries(q, self.prepared.kind)
        self.memory.write(k, v)
        answers = [part.look(q, self.memory) for part in self.prepared.parts]
        out = answers[0] if len(answers) == 1 else torch.cat(answers)
        return out if self.prepared.order is None else out.index_select(0, self.prepared.order)

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)
