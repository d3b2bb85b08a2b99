"""The self-test: a kernel answers like the reference on the shapes in use, or it is refused by name.

Shapes: B caches, R compared queries, T staged tokens, Hq query heads, H kv heads, D head dim.
"""

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from streamgen.attention.contract import Kernel, KernelError, Need
from streamgen.attention.kernels.reference import dense_attention
from streamgen.attention.registry import choose
from streamgen.attention.trial import Trial, noise, trial_batch

# The largest error of one query's answer, relative to the length of the answer.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-3, torch.float16: 1e-2, torch.bfloat16: 4e-2}
ROWS = 32  # queries that are compared; the kernel computes them all
SHARP = 3.0  # queries this long attend to few keys, so that one key wrongly hidden or shown stands out


def checked(name: str, need: Need) -> Kernel:
    """Choose a kernel and run its self-test, once for each kernel, kind of need and order of size."""
    kernel = choose(name, need)
    verify(kernel, _order_of_size(need))
    return kernel


def _order_of_size(need: Need) -> Need:
    """A stream changes its numbers with every chunk; only their order of size asks for a new self-test."""
    return replace(
        need,
        tokens=1 << (need.tokens - 1).bit_length(),
        visible=1 << (need.visible - 1).bit_length(),
        runs=min(need.runs, 4),
        batch=min(need.batch, 2),
        shared=1 << (need.shared - 1).bit_length() if need.shared else 0,
    )


@lru_cache(maxsize=256)
def verify(kernel: Kernel, need: Need) -> float:
    """The largest relative error on a small case full of edges and on the size in use, or KernelError."""
    few = min(need.tokens, 5)
    small = replace(
        need,
        tokens=few,
        visible=few + 2 * need.page_size + 3,
        batch=2,
        runs=min(need.runs, 3),
        shared=min(need.shared, need.page_size),
    )
    return max(_error(kernel, case) for case in (small, need))


def _error(kernel: Kernel, need: Need) -> float:
    trials = trial_batch(need)
    q = SHARP * noise(need, 1, need.batch, need.tokens, need.q_heads)
    k = noise(need, 2, need.batch, need.tokens, need.kv_heads)
    v = noise(need, 3, need.batch, need.tokens, need.kv_heads)
    [attend] = kernel.plan(trials, need.q_heads)
    out = attend(q, k, v)
    if out.shape != q.shape:
        raise KernelError(_refusal(kernel, need, f"answers in shape {list(out.shape)}, not {list(q.shape)}"))
    if not bool(out.isfinite().all()):
        raise KernelError(_refusal(kernel, need, "answers with NaN or infinity"))
    if bool((out == out.flatten()[0]).all()):
        raise KernelError(_refusal(kernel, need, "answers with one constant, a black picture"))
    worst = max(_compare(trial, q[index], out[index], need.softcap) for index, trial in enumerate(trials))
    if worst > TOLERANCE[need.dtype]:
        wrong = f"is off by {worst:.1e} of its answer where {TOLERANCE[need.dtype]:.0e} is allowed"
        raise KernelError(_refusal(kernel, need, wrong))
    return worst


def _compare(trial: Trial, q: Tensor, out: Tensor, softcap: float) -> float:
    """The worst relative error among evenly spread queries of one cache."""
    view, [(k, v)] = trial.table.view, trial.table.flat
    rows = torch.linspace(0, len(q) - 1, min(len(q), ROWS), device=q.device).long()
    mask = trial.mask.dense(view.past, view.tokens, q.device)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    keys, values = k[view.slots].to(wide), v[view.slots].to(wide)
    hidden = None if mask is None else mask[rows]
    truth = dense_attention(q[rows].to(wide), keys, values, hidden, softcap)
    lost = (out[rows].to(wide) - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
    return float(lost.max())


def _refusal(kernel: Kernel, need: Need, what: str) -> str:
    return (
        f"The kernel {kernel.name!r} {what} ({need.mask} mask, {need.dtype}, head dim {need.head_dim}, "
        f"{need.tokens} of {need.visible} tokens, on {need.device}); it is refused. "
        f"Choose {'reference' if kernel.name == 'sdpa' else 'sdpa'!r}, or another version of its package."
    )
