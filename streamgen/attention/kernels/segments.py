"""Scattered tokens without copying them together: attention over each stretch, merged by log-sum-exp (LSE).

Exact: softmax over all keys is the mean of the softmaxes over the stretches, weighted by their exp(LSE).
Shapes: B caches, Q queries, T staged tokens, N tokens of one stretch, Hq query heads, H kv heads, D head dim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from streamgen.attention.contract import MASKS, Attend, Lack, MaskKind, Need, Staged, mask_kind
from streamgen.attention.memory import Group, Memory, each_layer
from streamgen.kv.view import slot_runs

# q [1, Hq, Q, D], k and v [1, H, N, D], bias [Q, N] -> out [1, Hq, Q, D], lse [1, Hq, Q]
Partial = Callable[[Tensor, Tensor, Tensor, Tensor | None, bool], tuple[Tensor, Tensor]]

CPU_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
CUDA_DTYPES = (torch.bfloat16, torch.float16)
# Measured on CPUs: merging beats copying keys together for few long stretches in full precision; in half
# precision, where a copy costs half, it never wins.
FEW_RUNS, KEYS_PER_MERGED_QUERY = 8, 4


def partial_cpu(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, is_causal=causal, attn_mask=bias
    )


def partial_cuda(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    assert bias is None, "lacks() lets no bias reach the CUDA operator, which takes none"
    out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, is_causal=causal)
    return out, lse


@dataclass(frozen=True)
class Segments:
    name: str = "segments"
    masks: frozenset[MaskKind] = frozenset(MASKS)
    paged: bool = True

    def absent(self) -> Lack | None:
        return None

    def lacks(self, need: Need) -> Lack | None:
        if need.device == "cpu":
            return None if need.dtype in CPU_DTYPES else _dtype(need, CPU_DTYPES)
        if need.device != "cuda":
            return Lack(f"'segments' has no operator for {need.device}", "choose 'sdpa'")
        if need.dtype not in CUDA_DTYPES:
            return _dtype(need, CUDA_DTYPES)
        if need.head_dim % 8 or need.head_dim > 256:
            return Lack(
                f"'segments' on a GPU needs a head dim of a multiple of 8 up to 256, not {need.head_dim}",
                "choose 'sdpa'",
            )
        if need.mask not in ("full", "causal"):
            return Lack(f"'segments' on a GPU has no {need.mask} mask", "choose 'sdpa' or 'triton'")
        return None

    def detours(self, need: Need) -> bool:
        long = KEYS_PER_MERGED_QUERY * need.runs * need.tokens <= need.visible
        if need.shared:
            return True
        return not (need.one_run or (need.dtype.itemsize >= 4 and need.runs <= FEW_RUNS and long))

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        return each_layer(stages, q_heads, _prepare, _SegmentsAttend)


def _dtype(need: Need, known: tuple[torch.dtype, ...]) -> Lack:
    names = ", ".join(str(dtype) for dtype in known)
    reason = f"'segments' on {need.device} knows {names} and the cache keeps {need.dtype}"
    return Lack(reason, "choose 'sdpa'")


@dataclass(frozen=True)
class _Stretch:
    start: int
    length: int
    bias: Tensor | None  # [T, N], 0 where visible and -inf where not, in the dtype of the cache
    sees: Tensor | None  # bool [T]: which queries see any of it


@dataclass(frozen=True)
class _Split:
    """The stretches of one cache; under a mask the fresh keys are attended to apart from the past."""

    stretches: tuple[_Stretch, ...]
    fresh: bool
    causal: bool
    bias: Tensor | None  # [T, T], among the fresh keys


@dataclass(frozen=True)
class _Prepared:
    kind: MaskKind
    splits: tuple[_Split, ...]
    partial: Partial


def _prepare(group: Group) -> _Prepared:
    splits = tuple(_split(group, index) for index in range(len(group.views)))
    return _Prepared(group.kind, splits, partial_cuda if group.device.type == "cuda" else partial_cpu)


def _split(group: Group, index: int) -> _Split:
    view = group.views[index]
    kind = mask_kind(group.masks[index], view)
    if kind == "full":
        whole = tuple(_Stretch(start, stop - start, None, None) for start, stop in view.runs)
        return _Split(whole, fresh=False, causal=False, bias=None)
    slots = view.visible.slots[: view.past]
    past = slot_runs(np.sort(slots))
    if kind == "causal":
        unmasked = tuple(_Stretch(start, stop - start, None, None) for start, stop in past)
        return _Split(unmasked, fresh=True, causal=True, bias=None)
    dense = group.dense(index)
    assert dense is not None, f"a {kind} mask hides something from {view.tokens} tokens"
    columns = dense[:, torch.from_numpy(np.argsort(slots)).to(dense.device)]
    parts = columns.split([stop - start for start, stop in past], dim=1)
    masked = tuple(_stretch(run, part, group.dtype) for run, part in zip(past, parts, strict=True))
    return _Split(masked, fresh=True, causal=False, bias=_bias(dense[:, view.past :], group.dtype))


def _stretch(run: tuple[int, int], mask: Tensor, dtype: torch.dtype) -> _Stretch:
    start, stop = run
    if bool(mask.all()):
        return _Stretch(start, stop - start, None, None)
    return _Stretch(start, stop - start, _bias(mask, dtype), mask.any(dim=1))


def _bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, float("-inf"))


@dataclass(frozen=True)
class _SegmentsAttend:
    memory: Memory
    prepared: _Prepared

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.memory.refuse_other_queries(q, self.prepared.kind)
        self.memory.write(k, v)
        rows = zip(q, k, v, self.prepared.splits, strict=True)
        return torch.stack([self._one(*row) for row in rows])

    def store(self, k: Tensor, v: Tensor) -> None:
        self.memory.write(k, v)

    def _one(self, q: Tensor, k: Tensor, v: Tensor, split: _Split) -> Tensor:
        queries = _heads(q)
        parts = [self._past(queries, stretch) for stretch in split.stretches]
        if split.fresh:
            parts.append(self.prepared.partial(queries, _heads(k), _heads(v), split.bias, split.causal))
        out = parts[0][0] if len(parts) == 1 else merge(parts)
        return out[0].transpose(0, 1).to(q.dtype)

    def _past(self, q: Tensor, stretch: _Stretch) -> tuple[Tensor, Tensor]:
        k = self.memory.k.narrow(0, stretch.start, stretch.length)
        v = self.memory.v.narrow(0, stretch.start, stretch.length)
        out, lse = self.prepared.partial(q, _heads(k), _heads(v), stretch.bias, False)
        if stretch.sees is not None:  # the operator reports an LSE of 0 for a query that sees nothing
            lse = lse.masked_fill(~stretch.sees, float("-inf"))
        return out, lse


def _heads(x: Tensor) -> Tensor:
    """[n, H, D] -> [1, H, n, D]; einops would take as long as a short attention."""
    return x.transpose(0, 1).unsqueeze(0)


def merge(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Join partial attentions (out, lse), each over its own keys, into attention over all of them."""
    total = torch.logsumexp(torch.stack([lse for _, lse in parts]), dim=0)
    weighted = [out.to(lse.dtype) * (lse - total).exp().unsqueeze(-1) for out, lse in parts]
    return torch.stack(weighted).sum(0)
