"""Our own paged kernel, written in Triton: any view in place, any mask, shared heads.

On a CPU it runs only under Triton's interpreter (TRITON_INTERPRET=1), which is for tests.
Shapes: B caches, Q queries, T staged tokens, M table columns, P pages, S page size, Hq, H heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged
from streamgen.attention.lacks import HALF, GpuLimits, missing
from streamgen.attention.memory import Group, Memory, each_layer
from streamgen.attention.packed import padded, places
from streamgen.kv.masks import Full, Mask, Tree

INSTALL = "run 'pip install triton'"
LIMITS = GpuLimits("triton", frozenset(MASKS), (*HALF, torch.float32), (8, 0), head_dim=256, multiple=1)
ALL_SEE_ALL, CAUSAL, TREE = 0, 1, 2
FAR = 1 << 30  # a window that hides nothing


@dataclass(frozen=True)
class Triton:
    name: str = "triton"
    masks: frozenset[MaskKind] = frozenset(MASKS)
    paged: bool = True

    def absent(self) -> Lack | None:
        return missing(self.name, "triton", INSTALL)

    def lacks(self, need: Need) -> Lack | None:
        absent = self.absent()
        if absent is None and need.device == "cpu" and interpreted():
            return None if need.dtype in LIMITS.dtypes else _dtype(need)
        return LIMITS.elsewhere(need) or absent or LIMITS.lacks(need)

    def detours(self, need: Need) -> bool:
        return False

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        kernel = _kernel()
        upcast = interpreted()

        def bind(memory: Memory, ordered: _Ordered) -> Attend:
            strides = memory.k.stride(), memory.v.stride()
            assert strides[0] == strides[1] and strides[0][-1] == 1, f"keys and values lie as {strides}"
            return _TritonAttend(memory, ordered, kernel, upcast)

        return each_layer(stages, q_heads, _prepare, bind)


def _dtype(need: Need) -> Lack:
    known = ", ".join(str(dtype) for dtype in LIMITS.dtypes)
    return Lack(f"'triton' knows {known} and the cache keeps {need.dtype}", "choose 'reference'")


def _kernel() -> Any:
    return import_module("streamgen.attention.kernels.triton_paged").paged_attention


def interpreted() -> bool:
    """Whether Triton runs our kernel as Python instead of compiling it for a GPU."""
    return not isinstance(_kernel(), import_module("triton.runtime").JITFunction)


@dataclass(frozen=True)
class _Ordered:
    """Where the keys of a batch are, and who sees which."""

    kind: MaskKind
    order: int
    table: Tensor  # int32 [B, M], pages or slots
    page_size: int
    used: Tensor  # int32 [B]
    windows: Tensor  # int32 [B]
    sinks: Tensor  # int32 [B]
    tree: Tensor  # int8 [B, T, T]
    depth: Tensor  # int32 [B, T]


def _prepare(group: Group) -> _Ordered:
    order = _order(group)
    rows, page_size = places(group)
    windows, sinks = zip(*[_window(mask) for mask in group.masks], strict=True)
    tree, depth = _trees(group) if order == TREE else (_ints(group, [0]), _ints(group, [0]))
    return _Ordered(
        kind=group.kind,
        order=order,
        table=padded(rows),
        page_size=page_size,
        used=_ints(group, group.lengths),
        windows=_ints(group, windows),
        sinks=_ints(group, sinks),
        tree=tree,
        depth=depth,
    )


def _ints(group: Group, values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32).to(group.device)


def _order(group: Group) -> int:
    if group.kind == "full":
        return ALL_SEE_ALL
    if group.tokens > 1 and any(isinstance(mask, Full) for mask in group.masks):
        raise ValueError(
            "One batch of 'triton' cannot hold both Full and causal masks; plan them apart, or choose 'sdpa'."
        )
    return TREE if any(isinstance(mask, Tree) for mask in group.masks) else CAUSAL


def _window(mask: Mask) -> tuple[int, int]:
    if isinstance(mask, Full) or mask.window is None:
        return FAR, 0
    return mask.window, mask.sink


def _trees(group: Group) -> tuple[Tensor, Tensor]:
    """Which staged token sees which, and its depth; causal tokens are a tree without branches."""
    chain = tuple(range(-1, group.tokens - 1))
    trees = [mask if isinstance(mask, Tree) else Tree(chain) for mask in group.masks]
    linked = [Tree(tree.parents).dense(0, group.tokens) for tree in trees]
    links = torch.stack([link for link in linked if link is not None]).to(torch.int8)
    depths = torch.tensor([tree.depths for tree in trees], dtype=torch.int32)
    return links.to(group.device), depths.to(group.device)


@dataclass(frozen=True)
class _TritonAttend:
    memory: Memory
    ordered: _Ordered
    kernel: Any
    upcast: bool

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.memory.refuse_other_queries(q, self.ordered.kind)
        self.memory.write(k, v)
        return self._launch(q.contiguous())

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)

    def _launch(self, q: Tensor) -> Tensor:
        caches, queries, q_heads, head_dim = q.shape
        kv_heads, at = self.memory.k.shape[1], self.ordered
        group = q_heads // kv_heads
        blocks = block_sizes(queries * group, head_dim, q.element_size())
        out = torch.empty_like(q)
        self.kernel[(-(-queries * group // blocks["BLOCK_Q"]), kv_heads, caches)](
            out,
            q,
            self.memory.k,
            self.memory.v,
            at.table,
            at.used,
            at.tree,
            at.depth,
            at.windows,
            at.sinks,
            head_dim**-0.5,
            queries,
            self.memory.staged.tokens,
            at.table.shape[1],
            *self.memory.k.stride()[:2],
            H=kv_heads,
            GROUP=group,
            D=head_dim,
            PAGE=at.page_size,
            ORDER=at.order,
            UPCAST=self.upcast,
            **blocks,
        )
        return out


def block_sizes(rows: int, head_dim: int, itemsize: int) -> dict[str, int]:
    """Blocks that fit the 99 KiB of shared memory of a small GPU; the head dim becomes a power of two."""
    padded_dim = max(16, 1 << (head_dim - 1).bit_length())
    wide = padded_dim * itemsize  # bytes of one key
    return {
        "BLOCK_Q": 16 if rows <= 16 else 64 if wide <= 512 else 32,
        "BLOCK_N": 64 if wide <= 256 else 32 if wide <= 512 else 16,
        "BLOCK_D": padded_dim,
    }
