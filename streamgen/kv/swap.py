"""Idle streams in host memory: a group goes out and comes back whole, a shared page moves once.

Shapes: G layers of a page, m pages, S page size, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.errors import CacheStateError
from streamgen.kv.home import Home, keep_home
from streamgen.kv.reposition import home_account
from streamgen.kv.table import BlockTable, pages_of, stretch_of

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache
    from streamgen.kv.pool import PagePool


@dataclass(eq=False)
class Swapped:
    """A group of caches in host memory: k, v [G, m, S, H, D], row i of which is page `stored[i]`."""

    pool: "PagePool"
    caches: tuple["KVCache", ...]
    stored: list[int]
    k: Tensor
    v: Tensor
    done: bool = False

    @property
    def nbytes(self) -> int:
        return 2 * self.k.numel() * self.k.element_size()


@dataclass(eq=False)
class _Arrival:
    """Holds pages while a group comes back."""

    pages: list[int] = field(default_factory=list)


def swap_out(caches: Sequence["KVCache"]) -> Swapped:
    """Move a group of caches to host memory and give their pages back."""
    pool = _common_pool(caches)
    tables = [table for cache in caches for table in cache.tables]
    size = pool.geometry.page_size
    stored = list(dict.fromkeys(page for table in tables for page in pages_of(np.sort(table.slots), size)))
    swapped = Swapped(pool, tuple(caches), stored, _to_host(pool.k, stored), _to_host(pool.v, stored))
    _move_homes(tables, {home: Home(home.keys.cpu()) for home in _homes(tables)})
    for cache in caches:
        for table in cache.tables:
            pool.pages.release(table.pages, table)
        pool.caches.pop(cache)
        cache.state = "swapped out"
    pool.tally.swapped_out += len(stored)
    return swapped


def swap_in(swapped: Swapped) -> None:
    """Bring a group back, all of it or nothing; caches that were closed meanwhile stay away."""
    pool = swapped.pool
    if swapped.done or pool.closed:
        raise CacheStateError("This group was swapped in before, or its pool is closed; swap out again.")
    caches = [cache for cache in swapped.caches if cache.state == "swapped out"]
    tables = [table for cache in caches for table in cache.tables]
    homes = _homes(tables)
    pool.arena.require(sum(home.nbytes for home in homes), home_account(pool))
    arrival = _Arrival()
    try:
        moved = _take(pool, tables, arrival)
        rows = [row for row, page in enumerate(swapped.stored) if page in moved]
        for plane, host in ((pool.k, swapped.k), (pool.v, swapped.v)):
            _from_host(plane, host, rows, [moved[swapped.stored[row]] for row in rows])
        account = home_account(pool)
        back = {home: keep_home(home.keys.to(pool.device), pool.arena, account) for home in homes}
    except BaseException:
        pool.pages.release(arrival.pages, arrival)
        raise
    _move_homes(tables, back)
    for table in tables:
        _settle(pool, table, moved)
    pool.pages.release(arrival.pages, arrival)
    for cache in caches:
        cache.state = "open"
        pool.caches[cache] = None
    pool.tally.swapped_in += len(rows)
    swapped.done = True


def _common_pool(caches: Sequence["KVCache"]) -> "PagePool":
    pools = {cache.pool for cache in caches}
    if len(pools) != 1 or len(set(caches)) != len(caches):
        raise UsageError("swap_out() takes one or more different caches of one pool.")
    for cache in caches:
        cache.require_idle("swap_out()")
    return pools.pop()


def _take(pool: "PagePool", tables: Sequence[BlockTable], arrival: _Arrival) -> dict[int, int]:
    """New pages for the old ones; stretches first, since they need neighbours."""
    wanted = {page for table in tables for page in table.pages}
    pool.pages.require(len(wanted), "Swapping in")
    moved: dict[int, int] = {}
    for table in tables:
        if table.stretch is not None:
            stretch = pool.pages.take_stretch(len(table.pages), arrival)
            arrival.pages += stretch
            moved |= dict(zip(table.pages, stretch, strict=True))
    rest = list(dict.fromkeys(page for table in tables for page in table.pages if page not in moved))
    single = pool.pages.take(len(rest), arrival)
    arrival.pages += single
    return moved | dict(zip(rest, single, strict=True))


def _settle(pool: "PagePool", table: BlockTable, moved: dict[int, int]) -> None:
    size = table.page_size
    if table.stretch is not None:
        start = moved[table.pages[0]] * size
        table.stretch = range(start, start + len(table.stretch))
    lookup = np.zeros(max(table.pages, default=0) + 1, dtype=np.int64)
    for page in table.pages:
        lookup[page] = moved[page]
    slots = lookup[table.slots // size] * size + table.slots % size
    table.entries = replace(table.entries, places=stretch_of(slots))
    table.pages = [moved[page] for page in table.pages]
    for page in table.pages:
        pool.pages.hold(page, table)


def _homes(tables: Sequence[BlockTable]) -> list[Home]:
    origins = [table.entries.origins for table in tables if table.entries.origins is not None]
    return list(dict.fromkeys(home for origin in origins for home in origin.homes))


def _move_homes(tables: Sequence[BlockTable], moved: dict[Home, Home]) -> None:
    for table in tables:
        origins = table.entries.origins
        if origins is not None:
            homes = tuple(moved[home] for home in origins.homes)
            table.entries = replace(table.entries, origins=replace(origins, homes=homes))


def _to_host(plane: Tensor, pages: Sequence[int]) -> Tensor:
    index = torch.tensor(pages, dtype=torch.int64, device=plane.device)
    shape = (len(plane), len(pages), *plane.shape[2:])
    host = torch.empty(shape, dtype=plane.dtype, pin_memory=plane.is_cuda)
    for layer, target in zip(plane, host, strict=True):
        target.copy_(layer.index_select(0, index))
    return host


def _from_host(plane: Tensor, host: Tensor, rows: Sequence[int], pages: Sequence[int]) -> None:
    row = torch.tensor(rows, dtype=torch.int64)
    page = torch.tensor(pages, dtype=torch.int64, device=plane.device)
    for layer, source in zip(plane, host, strict=True):
        values = source.index_select(0, row).to(plane.device)
        if plane.dtype.itemsize == 1:
            layer, values = layer.view(torch.uint8), values.view(torch.uint8)
        layer.index_copy_(0, page, values)
