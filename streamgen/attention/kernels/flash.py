"""The flash-attn package (FlashAttention-2). GPU only; reads pages of a multiple of 256 tokens in place.

Shapes: B caches, Q queries, Hq query heads, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from einops import rearrange
from torch import Tensor

from streamgen.attention.contract import Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.lacks import HALF, GpuLimits, missing
from streamgen.attention.memory import Group, Memory, each_layer
from streamgen.attention.packed import Packed, pack

INSTALL = "run 'pip install flash-attn' (it is built with nvcc)"
PAGE_MULTIPLE = 256
LIMITS = GpuLimits("flash", frozenset({"full", "causal", "window"}), HALF, (8, 0), head_dim=256, multiple=8)


@dataclass(frozen=True)
class Flash:
    name: str = "flash"
    masks: frozenset[MaskKind] = frozenset({"full", "causal", "window"})
    paged: bool = True

    def absent(self) -> Lack | None:
        return missing(self.name, "flash_attn", INSTALL)

    def lacks(self, need: Need) -> Lack | None:
        return LIMITS.elsewhere(need) or self.absent() or LIMITS.lacks(need)

    def detours(self, need: Need) -> bool:
        in_place = need.batch == 1 and need.one_run and need.mask == "full"
        return not (in_place or (need.paged and need.page_size % PAGE_MULTIPLE == 0))

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        function = import_module("flash_attn").flash_attn_varlen_func

        def bind(memory: Memory, packed: Packed) -> Attend:
            return _FlashAttend(memory, packed, function)

        return each_layer(stages, q_heads, _prepare, bind)


def _prepare(group: Group) -> Packed:
    return pack(group, pages=group.views[0].page_size % PAGE_MULTIPLE == 0)


@dataclass(frozen=True)
class _FlashAttend:
    memory: Memory
    packed: Packed
    function: Any

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        packed, queries = self.packed, q.shape[1]
        self.memory.refuse_other_queries(q, packed.kind)
        self.memory.write(k, v)
        keys, values = packed.keys(self.memory)
        out = self.function(
            rearrange(q, "b q h d -> (b q) h d"),
            keys,
            values,
            packed.starts(queries),
            packed.cu_k,
            queries,
            packed.longest,
            causal=packed.causal,
            window_size=packed.left_right,
            block_table=packed.table,
        )
        return rearrange(out, "(b q) h d -> b q h d", q=queries)

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)
