"""What a pool holds and has done, in numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from streamgen.kv.pool import PagePool


@dataclass
class Tally:
    """What has been done so far: pages copied, tokens moved and evicted, pages swapped."""

    copies: int = 0
    moves: int = 0
    evictions: int = 0
    swapped_out: int = 0
    swapped_in: int = 0


@dataclass(frozen=True)
class PoolCounters:
    """A pool at one moment."""

    pages: int
    free: int
    shared: int  # pages in more than one table
    bytes_reserved: int
    bytes_tokens: int  # those that hold real tokens
    bytes_home: int  # pristine keys of turned tokens, beside the pages
    fill: float  # tokens stored / slots of the pages in use
    copies: int  # pages copied, ever
    moves: int  # tokens moved by compaction, ever
    evictions: int  # tokens let go by retention or evict(), ever
    swapped_out: int  # pages, ever
    swapped_in: int

    @property
    def used(self) -> int:
        return self.pages - self.free


def count_pool(pool: "PagePool") -> PoolCounters:
    """Read the counters; slots shared by several tables count once."""
    pages, geometry, tally = pool.pages, pool.geometry, pool.tally
    tables = [table for cache in pool.caches for table in cache.tables]
    homes = {home for table in tables if table.entries.origins for home in table.entries.origins.homes}
    slots = [table.slots for table in tables]
    tokens = len(np.unique(np.concatenate(slots))) if slots else 0
    used = pages.total - pages.free
    return PoolCounters(
        pages=pages.total,
        free=pages.free,
        shared=sum(pages.refs(page) > 1 for page in range(pages.total)),
        bytes_reserved=pages.total * geometry.page_bytes,
        bytes_tokens=tokens * geometry.slot_bytes,
        bytes_home=sum(home.nbytes for home in homes),
        fill=tokens / (used * geometry.page_size) if used else 1.0,
        copies=tally.copies,
        moves=tally.moves,
        evictions=tally.evictions,
        swapped_out=tally.swapped_out,
        swapped_in=tally.swapped_in,
    )
