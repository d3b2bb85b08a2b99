"""What a model will hold before it is loaded, and whether that fits.

The published formula (a survey of KV caches, eq. 15) counts keys and values only:
layers x 2 x tokens x kv heads x head dim x bytes x sequences. What our pools take differs from it: pages are
rounded up, windows hold less, and a prefix that several sequences share lies there once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from streamgen.kv.arena import format_bytes
from streamgen.runtime.memory import Share

NOT_COUNTED = "activations of one forward, and what torch itself takes"


@dataclass(frozen=True)
class Plan:
    """Everything that so many sequences of one model hold, in bytes."""

    sequences: int
    formula: Share  # for comparison; no part of the total
    once: tuple[Share, ...]  # whatever the number of sequences, such as weights
    pools: tuple[Share, ...]  # keys and values, exactly as they are allocated
    each: tuple[Share, ...]  # what all sequences hold besides

    @property
    def cache(self) -> int:
        return sum(share.nbytes for share in self.pools)

    @property
    def total(self) -> int:
        return sum(share.nbytes for share in (*self.once, *self.pools, *self.each))

    def shares(self) -> tuple[Share, ...]:
        return (*self.once, *self.pools, *self.each)

    def fits(self, budget: int) -> bool:
        return self.total <= budget

    def record(self) -> dict[str, object]:
        """For JSON."""
        total: dict[str, object] = {"bytes": self.total, "readable": format_bytes(self.total)}
        return {
            "formula": self.formula.record(),
            "cache": {"bytes": self.cache, "readable": format_bytes(self.cache)},
            "memory": {share.what: share.record() for share in self.shares()},
            "total": total | {"not counted": NOT_COUNTED},
        }


def dense_cache(
    layers: int, kv_heads: int, head_dim: int, tokens: int, sequences: int, dtype: torch.dtype
) -> Share:
    """Keys and values by the published formula: every token in every layer, nothing shared or rounded."""
    how = (
        f"{layers} layers x 2 x {tokens} tokens x {kv_heads} kv heads x {head_dim} x {dtype.itemsize} bytes"
        f" x {sequences} sequences"
    )
    nbytes = layers * 2 * tokens * kv_heads * head_dim * dtype.itemsize * sequences
    return Share("formula", nbytes, how)


def times(share: Share, sequences: int) -> Share:
    """What each of several sequences holds for itself."""
    if sequences == 1:
        return share
    return Share(share.what, share.nbytes * sequences, f"{sequences} x ({share.how})")


def largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that fits, if fewer always fit where more do; 0 where none does."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
