"""A bounded stream rebuilt from a fork of it: in its own stretch, or in one of another pool or device.

Shapes: n tokens, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from streamgen.errors import UsageError
from streamgen.kv.home import Home, Origins, keep_home
from streamgen.kv.reposition import home_account
from streamgen.kv.table import IntArray
from streamgen.kv.view import write_slots

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache
    from streamgen.kv.pool import PagePool


@dataclass(frozen=True)
class Mark:
    """A moment of a bounded stream: a fork of it, and where in the stretch each token lay."""

    cache: "KVCache"
    places: tuple[IntArray, ...]

    def close(self) -> None:
        self.cache.close()

    def again(self) -> "Mark":
        """The same moment, closed on its own."""
        return Mark(self.cache.fork(), self.places)


def mark(ring: "KVCache", name: str = "") -> Mark:
    """Remember this moment; no page is copied until the stream overwrites it."""
    return Mark(ring.fork(name or f"mark in {ring.name}"), places(ring))


def places(ring: "KVCache") -> tuple[IntArray, ...]:
    """Where the tokens lie in the stretch of each table, counted from its start."""
    stretches = [table.stretch for table in ring.tables]
    if any(stretch is None for stretch in stretches):
        raise UsageError(f"{ring.name} lies in pages from anywhere; only a reserved stream has places.")
    pairs = zip(ring.tables, stretches, strict=True)
    return tuple(table.slots - stretch.start for table, stretch in pairs if stretch is not None)


def lay(ring: "KVCache", source: "KVCache", where: Sequence[IntArray]) -> None:
    """Make `ring` hold what `source` holds, token for token in these places of its stretch.

    Kernels then meet the same keys in the same order, so the stream goes on bit for bit. In one pool only
    tokens that lie elsewhere are copied; no other stream may share the pages that are written.
    """
    ring.require_idle("lay()")
    source.require_idle("lay()")
    same = ring.pool is source.pool
    for table, other, spots in zip(ring.tables, source.tables, where, strict=True):
        assert table.stretch is not None, f"{ring.name} has no stretch to lay tokens in"
        targets = spots + table.stretch.start
        moved = other.slots != targets if same else slice(None)
        _copy(source.pool, ring.pool, other.slots[moved], targets[moved])
        origins = None if same else _carried(other.entries.origins, source.pool, ring.pool)
        origins = other.entries.origins if same else origins
        table.entries = replace(other.entries, places=targets, origins=origins)


def _copy(source: "PagePool", target: "PagePool", slots: IntArray, targets: IntArray) -> None:
    if not len(slots):
        return
    if source is target:
        source.move_slots(slots, targets)
        return
    index = torch.from_numpy(slots).to(source.device)
    place = torch.from_numpy(targets).to(target.device)
    for (k, v), (new_k, new_v) in zip(source.flat, target.flat, strict=True):
        write_slots(new_k, place, k.index_select(0, index).to(target.device))
        write_slots(new_v, place, v.index_select(0, index).to(target.device))


def _carried(origins: Origins | None, source: "PagePool", target: "PagePool") -> Origins | None:
    """Home copies are shared on one budget and copied to another one."""
    if origins is None or source.arena is target.arena:
        return origins
    homes: list[Home] = []
    for home in origins.homes:
        keys = home.keys.to(target.device, copy=True)
        homes.append(keep_home(keys, target.arena, home_account(target)))
    return replace(origins, homes=tuple(homes))
