"""Turning stored keys to a new place, always from their pristine copy.

Shapes: n chosen tokens, G layers of a page, H kv heads, D head dim, A position axes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.home import FloatArray, Origins, keep_home, no_origins, pristine_keys, with_home
from streamgen.kv.sharing import foreign_pages, own_pages, refuse_if_read
from streamgen.kv.table import BlockTable, Indices, IntArray, check_index, pages_of, pick
from streamgen.kv.view import write_slots

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache
    from streamgen.kv.pool import PagePool

Shift = float | npt.NDArray[Any]  # one number for all tokens, or [n] or [n, A]
Rotate = Callable[
    [Tensor, Any], Tensor
]  # (keys [n, H, D], a float or a float64 tensor [n] or [n, A]) -> keys


@dataclass(frozen=True)
class _Turn:
    """One table's share of the work, planned before anything changes."""

    table: BlockTable
    index: IntArray
    homeless: IntArray  # the chosen tokens that have no pristine copy yet
    foreign: list[int]  # pages to be copied before the write
    positions: IntArray | None
    before: Origins


def reposition(
    cache: "KVCache",
    tokens: slice | Indices,
    rotate: Rotate,
    shift: Shift,
    tables: Sequence[int] | None,
) -> None:
    """Give tokens a place `shift` further on; keys that are stored unrotated only change their positions."""
    chosen = cache.tables if tables is None else [cache.tables[number] for number in tables]
    pairs = [(table, _chosen(table, tokens)) for table in chosen]
    if not cache.rotated:
        moved = [(table, _moved(table, index, shift)) for table, index in pairs]
        for table, positions in moved:
            table.entries = replace(table.entries, positions=positions)
        return
    turns = [_plan(cache.pool, table, index, shift) for table, index in pairs]
    _require(cache, turns)
    after = [_turned_origins(cache.pool, turn, shift) for turn in turns]
    for turn, origins in zip(turns, after, strict=True):
        own_pages(cache.pool, turn.table, turn.foreign)
        _turn_keys(cache.pool, turn, origins, rotate, by_token=np.ndim(shift) > 0)
        turn.table.entries = replace(
            turn.table.entries, positions=turn.positions, origins=origins if origins.homes else None
        )


def _chosen(table: BlockTable, tokens: slice | Indices) -> IntArray:
    return check_index(pick(tokens, table.tokens), table.tokens, "reposition(tokens=...)")


def _plan(pool: "PagePool", table: BlockTable, index: IntArray, shift: Shift) -> _Turn:
    axes = np.shape(shift)[1:]
    before = table.entries.origins or no_origins(table.tokens, axes)
    if before.shift.shape[1:] != axes:
        raise UsageError(
            "Keys of this stream were turned along other axes before; give shifts of the same shape."
        )
    foreign = foreign_pages(pool, pages_of(np.sort(table.slots[index]), table.page_size))
    if table.stretch is not None:
        refuse_if_read(pool, table, foreign)
    positions = None if table.positions is None else _moved(table, index, shift)
    return _Turn(table, index, index[before.home[index] < 0], foreign, positions, before)


def _require(cache: "KVCache", turns: Sequence[_Turn]) -> None:
    pool = cache.pool
    pool.pages.require(sum(len(turn.foreign) for turn in turns), f"Turning keys of {cache.name}")
    key_bytes = pool.geometry.slot_bytes // 2
    pool.arena.require(sum(len(turn.homeless) for turn in turns) * key_bytes, home_account(pool))


def home_account(pool: "PagePool") -> str:
    """Under which name home copies stand in the arena's report."""
    return f"home keys of {pool.name}"


def _turned_origins(pool: "PagePool", turn: _Turn, shift: Shift) -> Origins:
    """The origins after the turn: every chosen token has a home, and its total shift."""
    origins = turn.before
    if len(turn.homeless):
        slots = torch.from_numpy(turn.table.slots[turn.homeless]).to(pool.device)
        keys = torch.stack([k.index_select(0, slots) for k, _ in pool.flat])
        origins = with_home(origins, turn.homeless, keep_home(keys, pool.arena, home_account(pool)))
    total = origins.shift.copy()
    total[turn.index] += np.asarray(shift, dtype=np.float64)
    return replace(origins, shift=total)


def _turn_keys(pool: "PagePool", turn: _Turn, origins: Origins, rotate: Rotate, by_token: bool) -> None:
    if len(turn.index) == 0:
        return
    slots = torch.from_numpy(turn.table.slots[turn.index]).to(pool.device)
    total = origins.shift[turn.index]
    for layer, (flat, _) in enumerate(pool.flat):
        keys = pristine_keys(origins, turn.index, layer)
        if by_token:
            write_slots(flat, slots, rotate(keys, torch.from_numpy(total).to(pool.device)))
            continue
        for angle in np.unique(total):
            group = torch.from_numpy(np.flatnonzero(total == angle)).to(pool.device)
            turned = keys.index_select(0, group)
            write_slots(flat, slots.index_select(0, group), rotate(turned, float(angle)) if angle else turned)


def _moved(table: BlockTable, index: IntArray, shift: Shift) -> IntArray:
    """Positions after the shift; a single number moves the first axis, which is time."""
    if table.positions is None:
        raise UsageError("This stream stores neither rotated keys nor positions; there is nothing to move.")
    step: FloatArray = np.asarray(shift, dtype=np.float64)
    whole = np.rint(step).astype(np.int64)
    if (whole != step).any():
        raise UsageError(f"A shift of {shift} does not lead to whole positions; give whole numbers.")
    positions = table.positions.copy()
    if positions.ndim == 2 and whole.ndim < 2:
        positions[index, 0] += whole
    else:
        positions[index] += whole
    return positions
