"""xformers' memory_efficient_attention over packed keys. GPU only; scattered keys are copied together first.

Shapes: B caches, Q queries, N visible tokens, H kv heads, G query heads to each of them, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from einops import rearrange, repeat
from torch import Tensor

from streamgen.attention.contract import Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.lacks import HALF, GpuLimits, missing
from streamgen.attention.memory import Group, Memory, each_layer
from streamgen.attention.packed import Packed, pack

INSTALL = "run 'pip install xformers'"
LIMITS = GpuLimits(
    "xformers",
    frozenset({"full", "causal", "window"}),
    (*HALF, torch.float32),
    (7, 0),
    head_dim=256,
    multiple=8,
)


@dataclass(frozen=True)
class Xformers:
    name: str = "xformers"
    masks: frozenset[MaskKind] = frozenset({"full", "causal", "window"})
    paged: bool = False

    def absent(self) -> Lack | None:
        return missing(self.name, "xformers", INSTALL)

    def lacks(self, need: Need) -> Lack | None:
        return LIMITS.elsewhere(need) or self.absent() or LIMITS.lacks(need)

    def detours(self, need: Need) -> bool:
        return not (need.batch == 1 and need.one_run and need.mask == "full")

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        ops = import_module("xformers.ops")
        biases = import_module("xformers.ops.fmha.attn_bias")

        def prepare(group: Group) -> _Biased:
            biased = _Biased(pack(group, pages=False), biases.BlockDiagonalMask, group.device)
            biased.bias(group.tokens)
            return biased

        def bind(memory: Memory, biased: _Biased) -> Attend:
            return _XformersAttend(memory, biased, ops.memory_efficient_attention)

        return each_layer(stages, q_heads, prepare, bind)


@dataclass(frozen=True)
class _Biased:
    """The packed batch and its block diagonal bias, one for each number of queries it was asked with."""

    packed: Packed
    block_diagonal: Any
    device: torch.device
    made: dict[int, Any] = field(default_factory=dict)

    def bias(self, queries: int) -> Any:
        if queries not in self.made:
            self.made[queries] = self._make(queries)
        return self.made[queries]

    def _make(self, queries: int) -> Any:
        lengths = list(self.packed.lengths)
        bias = self.block_diagonal.from_seqlens([queries] * len(lengths), lengths, device=self.device)
        if not self.packed.causal:
            return bias
        if self.packed.window is None:
            return bias.make_causal_from_bottomright()
        return bias.make_local_attention_from_bottomright(self.packed.window)


@dataclass(frozen=True)
class _XformersAttend:
    memory: Memory
    biased: _Biased
    function: Any

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        queries, groups = q.shape[1], q.shape[2] // self.memory.k.shape[1]
        self.memory.refuse_other_queries(q, self.biased.packed.kind)
        self.memory.write(k, v)
        keys, values = self.biased.packed.keys(self.memory)
        out = self.function(
            rearrange(q, "b q (h g) d -> 1 (b q) h g d", g=groups),
            repeat(keys, "n h d -> 1 n h g d", g=groups),
            repeat(values, "n h d -> 1 n h g d", g=groups),
            attn_bias=self.biased.bias(queries),
        )
        return rearrange(out, "1 (b q) h g d -> b q (h g) d", q=queries)

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)
