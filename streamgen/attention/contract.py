"""The contract: what a kernel is told (Need), what it answers (Lack), what it hands to a model (Attend).

Shapes: B caches, Q queries, T staged tokens, N visible tokens, Hq query heads, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from streamgen.attention.trunks import longest_trunk
from streamgen.errors import StreamgenError
from streamgen.kv.masks import Full, Mask, Tree
from streamgen.kv.view import TableKV, View

MaskKind = Literal["full", "causal", "window", "sink", "tree"]
# "sink" is a causal window that keeps a sink in view.
MASKS: tuple[MaskKind, ...] = ("full", "causal", "window", "sink", "tree")


class KernelError(StreamgenError, RuntimeError):
    """A kernel was asked for that cannot run here, or that answered wrongly."""


class Attend(Protocol):
    """One attention site of one pass: store the fresh keys and values, then look at everything visible."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [B, Q, Hq, D], k, v [B, T, H, D] -> [B, Q, Hq, D]; Q may differ from T under Full masks."""
        ...

    def store(self, k: Tensor, v: Tensor) -> None:
        """Store without looking: the clean pass of the last layer."""
        ...


class Staged(Protocol):
    """What a kernel reads of a stage."""

    @property
    def tokens(self) -> int: ...

    @property
    def mask(self) -> Mask: ...

    @property
    def tables(self) -> Sequence[TableKV]: ...


class Lack(str):
    """Why a kernel cannot serve, and what to do about it, as one sentence."""

    reason: str
    fix: str

    def __new__(cls, reason: str, fix: str) -> "Lack":
        lack = super().__new__(cls, f"{reason}; {fix}.")
        lack.reason, lack.fix = reason, fix
        return lack


@dataclass(frozen=True)
class Need:
    """What one plan asks of a kernel."""

    device: str
    dtype: torch.dtype
    head_dim: int
    q_heads: int
    kv_heads: int
    mask: MaskKind
    page_size: int
    paged: bool  # every view is whole pages in logical order
    one_run: bool  # every view is one stretch of memory
    runs: int  # stretches of the most scattered view
    batch: int
    tokens: int
    visible: int  # tokens of the longest view
    capability: tuple[int, int] | None = None  # of a CUDA device
    softcap: float = 0.0  # scores become softcap * tanh(score / softcap); 0 = as they are
    shared: int = 0  # tokens of the longest beginning that several caches have in common

    def __post_init__(self) -> None:
        if self.q_heads % self.kv_heads:
            raise ValueError(
                f"{self.q_heads} query heads cannot share {self.kv_heads} kv heads evenly; "
                f"build the pool with a number of kv heads that divides {self.q_heads}."
            )

    @classmethod
    def of(cls, stages: Sequence[Staged], q_heads: int, softcap: float = 0.0) -> "Need":
        """The need of staged caches that are attended to in one batch."""
        seen = [(stage.mask, table.view) for stage in stages for table in stage.tables]
        views = [view for _, view in seen]
        kinds = [mask_kind(mask, view) for mask, view in seen]
        k, _ = stages[0].tables[0].flat[0]
        _, kv_heads, head_dim = k.shape
        return cls(
            device=k.device.type,
            dtype=k.dtype,
            head_dim=head_dim,
            q_heads=q_heads,
            kv_heads=kv_heads,
            mask=widest(kinds),
            page_size=views[0].page_size,
            paged=all(view.pages is not None for view in views),
            one_run=all(len(view.runs) == 1 for view in views),
            runs=max(len(view.runs) for view in views),
            batch=len(stages),
            tokens=stages[0].tokens,
            visible=max(view.past + view.tokens for view in views),
            capability=torch.cuda.get_device_capability(k.device) if k.device.type == "cuda" else None,
            softcap=softcap,
            shared=longest_trunk(
                [stage.tables[0].view for stage in stages], [stage.mask for stage in stages]
            ),
        )


class Kernel(Protocol):
    """A way to compute attention over staged caches."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def masks(self) -> frozenset[MaskKind]:
        """The kinds of mask it honours."""
        ...

    @property
    def paged(self) -> bool:
        """Whether it reads scattered tokens where they lie."""
        ...

    def absent(self) -> Lack | None:
        """The package that is missing and how to get it, or None."""
        ...

    def lacks(self, need: Need) -> Lack | None:
        """Why it cannot serve this need and what to do about it, or None."""
        ...

    def detours(self, need: Need) -> bool:
        """Whether this need makes it copy keys together first (or do something as slow)."""
        ...

    def plan(self, stages: Sequence[Staged], q_heads: int) -> Sequence[Attend]:
        """The host work of a chunk, done once: one Attend per layer, good for any number of passes."""
        ...


def mask_kind(mask: Mask, view: View) -> MaskKind:
    """The simplest kind that means the same for this view: one causal token sees everything, say."""
    if isinstance(mask, Full):
        return "full"
    hidden = mask.window is not None and view.past + view.tokens > mask.window + mask.sink
    if view.tokens == 1 and not hidden:
        return "full"
    if isinstance(mask, Tree):
        return "tree"
    if not hidden:
        return "causal"
    return "sink" if mask.sink else "window"


def widest(kinds: Sequence[MaskKind]) -> MaskKind:
    """The kind that can express all of these."""
    return max(kinds, key=MASKS.index)
