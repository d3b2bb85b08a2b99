"""Who holds which pages, read from the counters; only the worker's thread may look.

A pool is one session's ring, or its fork's.
"""

from dataclasses import asdict
from typing import Any


def pool_of(world: Any) -> Any:
    """The pool of a world session; None while a fork still borrows all its pages."""
    ring = world.memory.ring
    return None if ring is None else ring.pool


def pool_record(pool: Any, owner: str) -> dict[str, Any]:
    """One pool's counters and the pages by how many tables hold them."""
    counters = pool.counters()
    refs = [pool.pages.refs(page) for page in range(counters.pages)]
    page_bytes = pool.geometry.page_bytes
    return {"owner": owner, "name": pool.name, "page_bytes": page_bytes, "refs": refs, **asdict(counters)}


def arena_record(arena: Any) -> dict[str, Any]:
    """The budget and who leases what of it."""
    if arena is None:
        return {"budget": None, "held": 0, "leases": []}
    leases = [{"owner": owner, "bytes": size} for owner, size in arena.report()]
    return {"budget": arena.budget, "held": arena.held, "leases": leases}


def tables_record(memory: Any) -> dict[str, int]:
    """Bytes of the pages that the texts of a memory hold, and what they would hold if nothing was shared."""
    held = alone = 0
    for group in memory.groups:
        tables = [table.pages for cache in group.pool.caches for table in cache.tables]
        held += group.pool.geometry.page_bytes * len({page for pages in tables for page in pages})
        alone += group.pool.geometry.page_bytes * sum(map(len, tables))
    return {"cache_bytes": held, "alone_bytes": alone}
