"""torch.nn.attention.varlen: flash attention over ragged caches with no further package. GPU only.

Reads pages through a block table once FlashAttention-3 is active
(torch.nn.attention.activate_flash_attention_impl("FA3")); until then scattered keys are copied together.
Shapes: B caches, Q queries, Hq query heads, H kv heads, D head dim.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from streamgen.attention.contract import Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.lacks import HALF, SDPA_FIX, GpuLimits
from streamgen.attention.memory import Group, Memory, each_layer
from streamgen.attention.packed import Packed, pack

MODULE = "torch.nn.attention.varlen"
LIMITS = GpuLimits("varlen", frozenset({"full", "causal", "window"}), HALF, (8, 0), head_dim=256, multiple=8)


@dataclass(frozen=True)
class Varlen:
    name: str = "varlen"
    masks: frozenset[MaskKind] = frozenset({"full", "causal", "window"})
    paged: bool = True

    def absent(self) -> Lack | None:
        function = _function()
        if function is not None and "block_table" in inspect.signature(function).parameters:
            return None
        fix = f"install torch>=2.12, or {SDPA_FIX}"
        return Lack(f"torch {torch.__version__} has no varlen_attn that takes a block table", fix)

    def lacks(self, need: Need) -> Lack | None:
        return LIMITS.elsewhere(need) or self.absent() or LIMITS.lacks(need)

    def detours(self, need: Need) -> bool:
        in_place = need.batch == 1 and need.one_run and need.mask == "full"
        return not (in_place or (need.paged and reads_pages()))

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        function = _function()
        assert function is not None, "lacks() answers for a torch without varlen_attn"

        def prepare(group: Group) -> Packed:
            return pack(group, pages=reads_pages())

        def bind(memory: Memory, packed: Packed) -> Attend:
            return _VarlenAttend(memory, packed, function)

        return each_layer(stages, q_heads, prepare, bind)


def _function() -> Any:
    try:
        return import_module(MODULE).varlen_attn
    except ModuleNotFoundError:
        return None


def reads_pages() -> bool:
    """FlashAttention-2, torch's default, has no block table."""
    return torch.nn.attention.current_flash_attention_impl() == "FA3"


@dataclass(frozen=True)
class _VarlenAttend:
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
            packed.cu_k if packed.table is None else None,
            queries,
            packed.longest,
            window_size=packed.left_right,
            enable_gqa=q.shape[2] != self.memory.k.shape[1],
            seqused_k=None if packed.table is None else packed.used,
            block_table=packed.table,
        )
        return rearrange(out, "(b q) h d -> b q h d", q=queries)

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)
