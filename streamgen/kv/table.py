"""The block table of one stream: which slot of the pool holds which token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.home import Origins, join_origins

if TYPE_CHECKING:
    from streamgen.kv.draft import Draft

IntArray = npt.NDArray[np.int64]
Places = IntArray | range  # where tokens lie or which ones are meant: a range where they are one stretch
Indices = Sequence[int] | npt.NDArray[Any] | Tensor  # logical indices, as callers give them


def array_of(places: Places) -> IntArray:
    assert not isinstance(places, range) or places.step == 1, f"{places} is not one stretch"
    return np.arange(places.start, places.stop, dtype=np.int64) if isinstance(places, range) else places


def stretch_of(slots: IntArray) -> Places:
    """The slots as a range, where they are one rising stretch."""
    if len(slots) == 0 or int(slots[-1] - slots[0]) != len(slots) - 1 or (np.diff(slots) != 1).any():
        return slots
    return range(int(slots[0]), int(slots[-1]) + 1)


def _joined(left: Places, right: Places) -> Places:
    if isinstance(left, range) and isinstance(right, range) and left.stop == right.start:
        return range(left.start, right.stop)
    return np.concatenate([array_of(left), array_of(right)])


@dataclass(frozen=True, eq=False)
class Tokens:
    """What is known about stored tokens, in logical order. places [n] of slots, positions [n] or [n, axes].

    A stream that grows alone lies in one stretch: its next token is then planned without looking at the past.
    The copy of a shared page ends the stretch, and an eviction may.
    """

    places: Places
    positions: IntArray | None = None
    origins: Origins | None = None

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def slots(self) -> IntArray:
        """[n]"""
        return array_of(self.places)

    def within(self, start: int, stop: int) -> Places:
        """The logical indices of the tokens in the slots from `start` on, before `stop`."""
        if isinstance(self.places, range):
            first = self.places.start
            return range(len(self))[max(0, start - first) : max(0, stop - first)]
        return np.flatnonzero((self.slots >= start) & (self.slots < stop))

    def take(self, index: Places) -> "Tokens":
        """Some of the tokens, by rising logical indices."""
        if len(index) == len(self):
            return self  # all of them, since indices rise
        if isinstance(index, range):
            places: Places = self.places[index.start : index.stop]
            index = array_of(index)
        else:
            places = self.slots[index]
        positions = None if self.positions is None else self.positions[index]
        origins = None if self.origins is None else self.origins.take(index)
        return Tokens(places, positions, origins)

    def join(self, other: "Tokens") -> "Tokens":
        if len(other) == 0:
            return self
        if len(self) == 0:
            return other
        positions = None
        if self.positions is not None and other.positions is not None:
            positions = np.concatenate([self.positions, other.positions])
        origins = join_origins(self.origins, len(self), other.origins, len(other))
        return Tokens(_joined(self.places, other.places), positions, origins)

    def moved(self, old: int, new: int, page_size: int) -> "Tokens":
        """The same tokens after page `old` went to page `new`."""
        slots = np.where(self.slots // page_size == old, self.slots + (new - old) * page_size, self.slots)
        return replace(self, places=slots)


class BlockTable:
    """The pages and slots of one group of layers. Token i of the past lies in slot slots[i]."""

    def __init__(self, page_size: int, stretch: range | None = None) -> None:
        self.page_size = page_size
        self.stretch = stretch  # the slots of a bounded stream, one run; None = pages from anywhere
        self.pages: list[int] = []
        self.entries = Tokens(range(0))
        self.draft: Draft | None = None  # what an open stage adds

    @property
    def tokens(self) -> int:
        return len(self.entries)

    @property
    def slots(self) -> IntArray:
        return self.entries.slots

    @property
    def positions(self) -> IntArray | None:
        return self.entries.positions

    def repoint(self, old: int, new: int) -> None:
        self.pages[self.pages.index(old)] = new
        self.entries = self.entries.moved(old, new, self.page_size)


def pages_of(slots: IntArray, page_size: int) -> list[int]:
    """The pages that hold these slots, in the order of their first token."""
    pages = slots // page_size
    if len(pages) == 0:
        return []
    first = np.flatnonzero(np.concatenate([[True], pages[1:] != pages[:-1]]))
    return list(dict.fromkeys(pages[first].tolist()))


def slots_of(pages: list[int], page_size: int) -> IntArray:
    """Every slot of these pages, page after page."""
    first = np.asarray(pages, dtype=np.int64) * page_size
    return (first[:, None] + np.arange(page_size)).reshape(-1)


def settled(slots: IntArray, page_size: int) -> int:
    """How many leading tokens lie in full pages, in order; all, if only the last page is not full."""
    whole = len(slots) // page_size * page_size
    blocks = slots[:whole].reshape(-1, page_size)
    rest = slots[whole:]
    first = blocks[:, :1] // page_size * page_size
    gaps = np.flatnonzero((blocks != first + np.arange(page_size)).any(axis=1))
    if len(gaps):
        return int(gaps[0]) * page_size
    if len(rest) and (rest != rest[0] // page_size * page_size + np.arange(len(rest))).any():
        return whole
    return len(slots)


def check_index(index: IntArray, count: int, what: str) -> IntArray:
    """Logical indices must rise and exist."""
    if len(index) and (index[0] < 0 or index[-1] >= count or (np.diff(index) <= 0).any()):
        raise UsageError(f"{what} takes rising indices from 0 to {count - 1}; given were {index.tolist()}.")
    return index


def pick(tokens: slice | Indices, count: int) -> IntArray:
    """The logical indices that a slice or a list of them names among `count` tokens."""
    if isinstance(tokens, slice):
        return np.arange(count, dtype=np.int64)[tokens]
    host = tokens.cpu() if isinstance(tokens, Tensor) else tokens
    index = np.asarray(host, dtype=np.int64).reshape(-1)
    if len(index) and (index.min() < 0 or index.max() >= count):
        raise UsageError(
            f"Tokens {index.min()} to {index.max()} were asked for; the table holds {count}, from 0."
        )
    return index
