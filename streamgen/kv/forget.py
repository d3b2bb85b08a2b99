"""Letting go of different tokens in each table, all or nothing: a summary of what goes, new positions.

Keys are turned in place, without home copies, so that the bytes of an endless stream stay what they are; each
turn costs one rounding. Shapes: n tokens, H kv heads, D head dim, A position axes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.compact import Compaction, plan_compaction
from streamgen.kv.errors import OutOfPagesError
from streamgen.kv.reposition import Rotate
from streamgen.kv.sharing import foreign_pages, own_pages
from streamgen.kv.table import BlockTable, IntArray, pages_of
from streamgen.kv.view import write_slots

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache
    from streamgen.kv.pool import PagePool


@dataclass(frozen=True)
class Kept:
    """What `forget` did, for a log: tokens of each table before and after, and which got a summary."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    summaries: tuple[int, ...]
    renumbered: bool


@dataclass(frozen=True)
class Summary:
    """One token for all that goes: mean keys, turned to one place, and mean values, both [G, 1, H, D]."""

    k: Tensor
    v: Tensor
    position: IntArray  # [1] or [1, A]


def forget(
    cache: "KVCache",
    keep: Sequence[IntArray],
    rotate: Rotate,
    pinned: int = 0,
    summarize: Collection[int] = (),
    renumber: bool = False,
) -> Kept:
    """Keep only these rising logical indices of each table, and the first `pinned` tokens where they are.

    `summarize`: tables where the mean of what goes is added as the newest token. `renumber`: close the gaps
    in the positions that stay. Pages are counted first; OutOfPagesError leaves everything as it was.
    """
    cache.require_idle("forget()")
    _require_plain(cache)
    kept = cache.per_table(keep, "forget(keep=...)")
    places = [
        _places(table, index, pinned, renumber) for table, index in zip(cache.tables, kept, strict=True)
    ]
    summaries: dict[int, Summary] = {}
    for number in sorted(summarize):
        table = cache.tables[number]
        gone = np.setdiff1d(np.arange(table.tokens), kept[number], assume_unique=True)
        if len(gone):
            summaries[number] = _summary(cache.pool, table, gone, places[number], rotate)
    _require_pages(cache, kept, places, summaries)
    before = tuple(table.tokens for table in cache.tables)
    cache.evict(kept)
    for table, place in zip(cache.tables, places, strict=True):
        turn(cache.pool, table, place, rotate)
    if summaries:
        _append(cache, summaries)
    return Kept(before, tuple(table.tokens for table in cache.tables), tuple(summaries), renumber)


def renumbered(positions: IntArray, pinned: int) -> IntArray:
    """Positions [n] or [n, A] without gaps: behind the pinned ones, ranks among the values of an axis."""
    place = positions.copy()
    columns = place if place.ndim == 2 else place[:, None]  # a view
    for axis in range(columns.shape[1]):
        columns[pinned:, axis] = pinned + np.unique(columns[pinned:, axis], return_inverse=True)[1]
    return place


def turn(pool: "PagePool", table: BlockTable, place: IntArray, rotate: Rotate) -> None:
    """Give the tokens of a table these positions; the keys that move are turned where they lie."""
    assert table.positions is not None, "positions were required"
    shift = place - table.positions
    index = np.flatnonzero(_rows(shift))
    if len(index):
        own_pages(pool, table, foreign_pages(pool, pages_of(np.sort(table.slots[index]), table.page_size)))
        slots = torch.from_numpy(table.slots[index]).to(pool.device)
        by = torch.from_numpy(shift[index].astype(np.float64)).to(pool.device)
        for flat, _ in pool.flat:
            write_slots(flat, slots, rotate(flat.index_select(0, slots), by))
    table.entries = replace(table.entries, positions=place)


def _require_plain(cache: "KVCache") -> None:
    for table in cache.tables:
        if table.stretch is not None or table.entries.origins is not None:
            raise UsageError(
                f"{cache.name} is bounded by a reserve or keeps home copies; forget() works on neither. "
                "Open the cache without reserve and turn its keys with forget() only."
            )
        if table.positions is None:
            raise UsageError(f"{cache.name} stores no positions; stage its tokens with positions.")


def _places(table: BlockTable, index: IntArray, pinned: int, renumber: bool) -> IntArray:
    """Positions after the eviction of what stays."""
    assert table.positions is not None, "positions were required"
    stay = table.positions[index]
    return renumbered(stay, pinned) if renumber else stay


def _summary(
    pool: "PagePool", table: BlockTable, gone: IntArray, places: IntArray, rotate: Rotate
) -> Summary:
    """The mean of tokens `gone`, standing behind the last one that stays."""
    assert table.positions is not None, "positions were required"
    position = np.full_like(table.positions[:1], places.max() + 1 if len(places) else 0)
    shift = torch.from_numpy((position - table.positions[gone]).astype(np.float64)).to(pool.device)
    slots = torch.from_numpy(table.slots[gone]).to(pool.device)
    keys = [_mean(rotate(k.index_select(0, slots), shift)) for k, _ in pool.flat]
    values = [_mean(v.index_select(0, slots)) for _, v in pool.flat]
    return Summary(torch.stack(keys), torch.stack(values), position)


def _mean(rows: Tensor) -> Tensor:
    wide = torch.promote_types(rows.dtype, torch.float32)
    return rows.to(wide).mean(0, keepdim=True).to(rows.dtype)


def _append(cache: "KVCache", summaries: dict[int, Summary]) -> None:
    empty = np.empty(0, dtype=np.int64)
    places = [
        summaries[number].position if number in summaries else empty for number in range(len(cache.tables))
    ]
    k = torch.cat([summary.k for summary in summaries.values()])
    v = torch.cat([summary.v for summary in summaries.values()])
    cache.append(k, v, positions=places, tables=list(summaries))


def _require_pages(
    cache: "KVCache", kept: Sequence[IntArray], places: Sequence[IntArray], summaries: dict[int, Summary]
) -> None:
    """Count the pages of all three steps before the first of them."""
    pages = cache.pool.pages
    plans = [plan_compaction(cache.pool, *pair) for pair in zip(cache.tables, kept, strict=True)]
    fresh = sum(plan.fresh for plan in plans)
    back = sum(_released(cache.pool, *pair) for pair in zip(cache.tables, plans, strict=True))
    shared = sum(
        _shared(cache.pool, table, plan, place)
        for table, plan, place in zip(cache.tables, plans, places, strict=True)
    )
    later = shared + sum(_tail(cache.pool, cache.tables[number], plans[number]) for number in summaries)
    if fresh > pages.free or later > pages.free - fresh + back:
        raise OutOfPagesError(
            f"Letting tokens of {cache.name} go needs {max(fresh, fresh + later - back)} pages and "
            f"{pages.free} of the {pages.total} pages of {cache.pool.name} are free; "
            "close its forks, or build the pool with more pages."
        )


def _released(pool: "PagePool", table: BlockTable, plan: Compaction) -> int:
    """Pages that the compaction gives back."""
    stays = {*pages_of(plan.entries.slots[: plan.fixed], table.page_size), *plan.targets}
    return sum(pool.pages.refs(page) == 1 for page in table.pages if page not in stays)


def _tail(pool: "PagePool", table: BlockTable, plan: Compaction) -> int:
    """Pages for one more token behind those that stay: a fresh one, a copy of a shared one, or none."""
    count, size = len(plan.entries), table.page_size
    if count % size == 0:
        return 1
    return int(plan.fixed == count and not pool.pages.writable(int(plan.entries.slots[-1]) // size))


def _shared(pool: "PagePool", table: BlockTable, plan: Compaction, place: IntArray) -> int:
    """Pages that stay where they are and have to be copied before keys in them are turned."""
    fixed = plan.entries.slots[: plan.fixed]
    positions = plan.entries.positions
    assert positions is not None, "positions were required"
    moved = _rows(place - positions)[: plan.fixed]
    return len(foreign_pages(pool, pages_of(np.sort(fixed[moved]), table.page_size)))


def _rows(shift: IntArray) -> npt.NDArray[np.bool_]:
    """Which tokens move at all."""
    return np.asarray((shift if shift.ndim == 2 else shift[:, None]).any(axis=1), dtype=np.bool_)
