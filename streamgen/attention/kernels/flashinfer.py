"""FlashInfer's paged prefill: any view in place (whole pages, else pages of one token), any mask. GPU only.

Shapes: B caches, Q queries, T staged tokens, N visible tokens, P pages, S page size, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.lacks import HALF, GpuLimits, missing
from streamgen.attention.memory import Group, Memory, each_layer
from streamgen.attention.packed import native_order, places

INSTALL = "run 'pip install flashinfer-python'"
WORKSPACE_BYTES = 128 << 20
LIMITS = GpuLimits("flashinfer", frozenset(MASKS), HALF, (7, 5), head_dim=256, multiple=64)


@dataclass(frozen=True)
class Flashinfer:
    name: str = "flashinfer"
    masks: frozenset[MaskKind] = frozenset(MASKS)
    paged: bool = True

    def absent(self) -> Lack | None:
        return missing(self.name, "flashinfer", INSTALL)

    def lacks(self, need: Need) -> Lack | None:
        return LIMITS.elsewhere(need) or self.absent() or LIMITS.lacks(need)

    def detours(self, need: Need) -> bool:
        return False

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        wrapper = import_module("flashinfer").BatchPrefillWithPagedKVCacheWrapper

        def prepare(group: Group) -> _Wrapped:
            wrapped = _Wrapped(group, wrapper)
            wrapped.planned(group.tokens)
            return wrapped

        return each_layer(stages, q_heads, prepare, _FlashinferAttend)


@lru_cache(maxsize=8)
def _workspace(device: torch.device) -> Tensor:
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


@dataclass(frozen=True)
class _Wrapped:
    """FlashInfer plans for a number of queries; one planned wrapper is kept for each that was asked."""

    group: Group
    wrapper: Any
    made: dict[int, Any] = field(default_factory=dict)

    @property
    def page_size(self) -> int:
        return places(self.group)[1]

    def planned(self, queries: int) -> Any:
        if queries not in self.made:
            self.made[queries] = self._plan(queries)
        return self.made[queries]

    def _plan(self, queries: int) -> Any:
        group, size = self.group, self.page_size
        counts = [-(-length // size) for length in group.lengths]
        last = [length - (count - 1) * size for length, count in zip(group.lengths, counts, strict=True)]
        wrapper = self.wrapper(_workspace(group.device), "NHD")
        wrapper.plan(
            self._ends([queries] * len(counts)),
            self._ends(counts),
            torch.cat(places(group)[0]),
            torch.tensor(last, dtype=torch.int32, device=group.device),
            group.q_heads,
            group.kv_heads,
            group.head_dim,
            size,
            q_data_type=group.dtype,
            kv_data_type=group.dtype,
            **self._order(),
        )
        return wrapper

    def _order(self) -> dict[str, Any]:
        """How FlashInfer is told the mask: dense for trees and sinks, by name for the rest."""
        if self.group.kind in ("sink", "tree"):
            return {"custom_mask": torch.cat([self._dense(index) for index in range(len(self.group.views))])}
        causal, window = native_order(self.group)
        return {"causal": causal, "window_left": -1 if window is None else window - 1}

    def _dense(self, index: int) -> Tensor:
        """bool [T * N]."""
        dense = self.group.dense(index)
        if dense is None:
            shape = self.group.tokens * self.group.lengths[index]
            return torch.ones(shape, dtype=torch.bool, device=self.group.device)
        return dense.flatten()

    def _ends(self, counts: Sequence[int]) -> Tensor:
        """int32 [B+1]: where each cache's share begins and ends."""
        ends = torch.tensor([0, *counts], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        return ends.to(self.group.device)


@dataclass(frozen=True)
class _FlashinferAttend:
    memory: Memory
    wrapped: _Wrapped

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        queries, size = q.shape[1], self.wrapped.page_size
        self.memory.refuse_other_queries(q, self.wrapped.group.kind)
        self.memory.write(k, v)
        paged = "(p s) h d -> p s h d"
        out = self.wrapped.planned(queries).run(
            rearrange(q, "b q h d -> (b q) h d"),
            (rearrange(self.memory.k, paged, s=size), rearrange(self.memory.v, paged, s=size)),
        )
        return rearrange(out, "(b q) h d -> b q h d", q=queries)

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)
