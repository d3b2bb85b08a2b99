"""Home copies: the keys as they were first stored, so that turning them again and again adds no rounding.

Shapes: G layers of a page, n tokens, H kv heads, D head dim, A position axes.
"""

import weakref
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamgen.kv.arena import Arena

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Home:
    """Pristine keys [G, n, H, D]; the bytes go back to the arena when the last table forgets them."""

    keys: Tensor

    @property
    def nbytes(self) -> int:
        return self.keys.numel() * self.keys.element_size()


def keep_home(keys: Tensor, arena: Arena, owner: str) -> Home:
    """Hold keys for as long as somebody refers to them, on the arena's account."""
    home = Home(keys)
    lease = arena.reserve(home.nbytes, owner)
    weakref.finalize(home, lease.free)
    return home


@dataclass(frozen=True, eq=False)
class Origins:
    """Where each token's pristine key lies and how far the stored key has been turned from it.

    home [n]: index into `homes`, -1 = the stored key is pristine; row [n]; shift [n] or [n, A].
    """

    homes: tuple[Home, ...]
    home: IntArray
    row: IntArray
    shift: FloatArray

    def take(self, index: IntArray) -> "Origins | None":
        home, row, shift = self.home[index], self.row[index], self.shift[index]
        used = [number for number in range(len(self.homes)) if (home == number).any()]
        if not used:
            return None
        rank = np.full(len(self.homes) + 1, -1, dtype=np.int64)
        rank[used] = np.arange(len(used))
        return Origins(tuple(self.homes[number] for number in used), rank[home], row, shift)


def no_origins(count: int, axes: tuple[int, ...]) -> Origins:
    """Tokens whose stored keys are pristine; shifts have this many axes beside the tokens."""
    return Origins(
        (), np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64), np.zeros((count, *axes))
    )


def join_origins(
    left: Origins | None, num_left: int, right: Origins | None, num_right: int
) -> Origins | None:
    """Concatenate; a side without home copies is pristine."""
    known = left or right
    if known is None:
        return None
    left = left or no_origins(num_left, known.shift.shape[1:])
    right = right or no_origins(num_right, known.shift.shape[1:])
    moved = np.where(right.home < 0, right.home, right.home + len(left.homes))
    return Origins(
        left.homes + right.homes,
        np.concatenate([left.home, moved]),
        np.concatenate([left.row, right.row]),
        np.concatenate([left.shift, right.shift]),
    )


def with_home(origins: Origins, index: IntArray, home: Home) -> Origins:
    """Give the tokens `index` a home: row i of `home` belongs to index[i]."""
    number, row = origins.home.copy(), origins.row.copy()
    number[index], row[index] = len(origins.homes), np.arange(len(index))
    return replace(origins, homes=(*origins.homes, home), home=number, row=row)


def pristine_keys(origins: Origins, index: IntArray, layer: int) -> Tensor:
    """The home copies [n, H, D] of tokens that all have one, in the order of `index`."""
    numbers = origins.home[index]
    order = np.argsort(numbers, kind="stable")
    parts = [
        _rows(home, layer, origins.row[index[order]][numbers[order] == number])
        for number, home in enumerate(origins.homes)
    ]
    joined = torch.cat(parts)
    return joined.index_select(0, torch.from_numpy(np.argsort(order, kind="stable")).to(joined.device))


def _rows(home: Home, layer: int, rows: IntArray) -> Tensor:
    return home.keys[layer].index_select(0, torch.from_numpy(rows).to(home.keys.device))
