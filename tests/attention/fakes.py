"""Stand-ins for the GPU packages: what their documentation says they compute, done densely on the CPU.

They stand where the packages would be, so that the shapes, lengths, tables and windows we pass are tried.
Shapes: B caches, Q queries, N tokens, M table columns, P pages, S page size, Hq, H heads, D head dim.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from itertools import accumulate
from types import ModuleType
from typing import Any

import torch
from torch import Tensor


def dense(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """q [Q, Hq, D], k, v [N, H, D], seen bool [Q, N] -> [Q, Hq, D]."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = torch.einsum("qhd,nhd->hqn", q.float(), k.float()) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return torch.einsum("hqn,nhd->qhd", weights, v.float()).to(q.dtype)


def bottom_right(queries: int, keys: int, left: int, right: int) -> Tensor:
    """flash-attention's window: query i sees from i + N - Q - left to i + N - Q + right, -1 = no limit."""
    at = torch.arange(queries)[:, None] + keys - queries
    key = torch.arange(keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if left >= 0:
        seen &= key >= at - left
    if right >= 0:
        seen &= key <= at + right
    return seen


def ragged(
    q: Tensor, cu_q: Tensor | list[int], parts: Sequence[tuple[Tensor, Tensor]], left: int, right: int
) -> Tensor:
    """Attention of packed queries [sum Q, Hq, D], each stretch of them over its own keys."""
    outs = []
    for index, (k, v) in enumerate(parts):
        mine = q[int(cu_q[index]) : int(cu_q[index + 1])]
        outs.append(dense(mine, k, v, bottom_right(len(mine), len(k), left, right)))
    return torch.cat(outs)


def through(table: Tensor, lengths: Tensor, pool: Tensor) -> list[Tensor]:
    """Keys of each cache, read from [P, S, H, D] through int32 [B, M]."""
    assert table.dtype == torch.int32 and lengths.dtype == torch.int32
    return [pool[row].flatten(0, 1)[: int(n)] for row, n in zip(table.long(), lengths, strict=True)]


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    block_table: Tensor | None = None,
) -> Tensor:
    assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32
    lengths = cu_seqlens_k.diff()
    assert max_seqlen_q == int(cu_seqlens_q.diff().max()) and max_seqlen_k == int(lengths.max())
    if block_table is not None:
        assert k.shape[1] % 256 == 0, "Paged KV cache block size must be divisible by 256"
        keys, values = through(block_table, lengths, k), through(block_table, lengths, v)
    else:
        keys, values = list(k.split(lengths.tolist())), list(v.split(lengths.tolist()))
    left, right = window_size
    return ragged(q, cu_seqlens_q, list(zip(keys, values, strict=True)), left, 0 if causal else right)


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
) -> Tensor:
    assert enable_gqa == (query.shape[1] != key.shape[-2])
    if block_table is not None:
        assert cu_seq_k is None and seqused_k is not None and max_k == int(seqused_k.max())
        keys, values = through(block_table, seqused_k, key), through(block_table, seqused_k, value)
    else:
        assert cu_seq_k is not None and seqused_k is None and max_k == int(cu_seq_k.diff().max())
        keys, values = (list(x.split(cu_seq_k.diff().tolist())) for x in (key, value))
    return ragged(query, cu_seq_q, list(zip(keys, values, strict=True)), *window_size)


class BatchPrefillWithPagedKVCacheWrapper:
    """FlashInfer's wrapper: planned once on the host, run for any number of layers."""

    def __init__(self, workspace: Tensor, layout: str) -> None:
        assert workspace.dtype == torch.uint8 and layout == "NHD"

    def plan(
        self,
        qo_indptr: Tensor,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        custom_mask: Tensor | None = None,
        causal: bool = False,
        window_left: int = -1,
        q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None,
    ) -> None:
        assert {x.dtype for x in (qo_indptr, indptr, indices, last_page_len)} == {torch.int32}
        self.cu_q, self.size, self.mask = qo_indptr, page_size, custom_mask
        self.heads, self.dtype, self.last = (num_qo_heads, num_kv_heads, head_dim), q_data_type, last_page_len
        self.rows = indices.long().split(indptr.diff().tolist())
        self.left, self.right = window_left, 0 if causal else -1

    def run(self, q: Tensor, pools: tuple[Tensor, Tensor]) -> Tensor:
        assert q.dtype == self.dtype and (q.shape[1], *pools[0].shape[2:]) == self.heads
        assert pools[0].shape[1] == self.size
        parts = []
        for row, last in zip(self.rows, self.last, strict=True):
            length = (len(row) - 1) * self.size + int(last)
            parts.append(tuple(pool[row].flatten(0, 1)[:length] for pool in pools))
        if self.mask is None:
            return ragged(q, self.cu_q, parts, self.left, self.right)
        return self._masked(q, parts)

    def _masked(self, q: Tensor, parts: Sequence[tuple[Tensor, ...]]) -> Tensor:
        assert self.mask is not None
        outs, at = [], 0
        for index, (k, v) in enumerate(parts):
            mine = q[int(self.cu_q[index]) : int(self.cu_q[index + 1])]
            seen = self.mask[at : at + len(mine) * len(k)].view(len(mine), len(k))
            at += seen.numel()
            outs.append(dense(mine, k, v, seen))
        assert at == self.mask.numel()
        return torch.cat(outs)


class BlockDiagonalMask:
    """xformers' bias of a packed batch."""

    def __init__(
        self, queries: list[int], keys: list[int], right: int = -1, window: int | None = None
    ) -> None:
        self.queries, self.keys, self.right, self.window = queries, keys, right, window

    @classmethod
    def from_seqlens(
        cls, queries: list[int], keys: list[int], *, device: torch.device
    ) -> "BlockDiagonalMask":
        return cls(queries, keys)

    def make_causal_from_bottomright(self) -> "BlockDiagonalMask":
        return BlockDiagonalMask(self.queries, self.keys, right=0)

    def make_local_attention_from_bottomright(self, window_size: int) -> "BlockDiagonalMask":
        """Each query sees the last `window_size` keys, its own included."""
        return BlockDiagonalMask(self.queries, self.keys, right=0, window=window_size)


def memory_efficient_attention(q: Tensor, k: Tensor, v: Tensor, attn_bias: BlockDiagonalMask) -> Tensor:
    """[1, M, H, G, D], five dimensions for grouped heads; nothing is broadcast."""
    assert q.shape[2:] == k.shape[2:] == v.shape[2:]
    flat = [x[0].flatten(1, 2) for x in (q, k, v)]
    keys, values = flat[1].split(attn_bias.keys), flat[2].split(attn_bias.keys)
    ends = list(accumulate(attn_bias.queries, initial=0))
    left = -1 if attn_bias.window is None else attn_bias.window - 1
    out = ragged(flat[0], ends, list(zip(keys, values, strict=True)), left, attn_bias.right)
    return out.view(q.shape)


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    for member, value in members.items():
        setattr(made, member, value)
    return made


@contextmanager
def standing_in(*modules: ModuleType) -> Iterator[None]:
    """Put these modules where the packages would be, for as long as the block lasts."""
    before = {made.__name__: sys.modules.get(made.__name__) for made in modules}
    sys.modules.update({made.__name__: made for made in modules})
    try:
        yield
    finally:
        for name, old in before.items():
            sys.modules.pop(name)
            if old is not None:
                sys.modules[name] = old


PACKAGES = {
    "varlen": (module("torch.nn.attention.varlen", varlen_attn=varlen_attn),),
    "flash": (module("flash_attn", flash_attn_varlen_func=flash_attn_varlen_func),),
    "flashinfer": (
        module("flashinfer", BatchPrefillWithPagedKVCacheWrapper=BatchPrefillWithPagedKVCacheWrapper),
    ),
    "xformers": (
        module("xformers"),
        module("xformers.ops", memory_efficient_attention=memory_efficient_attention),
        module("xformers.ops.fmha"),
        module("xformers.ops.fmha.attn_bias", BlockDiagonalMask=BlockDiagonalMask),
    ),
}
