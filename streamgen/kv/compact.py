"""Closing the gaps that an eviction leaves, so that every page but the last is full.

n kept tokens of one table, S page size.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamgen.kv.sharing import keep_pages
from streamgen.kv.table import BlockTable, IntArray, Tokens, pages_of, settled, slots_of, stretch_of

if TYPE_CHECKING:
    from streamgen.kv.pool import PagePool


@dataclass(frozen=True)
class Compaction:
    """The first `fixed` kept tokens stay where they are; the others move to `targets`, then fresh pages."""

    entries: Tokens
    fixed: int
    targets: list[int]  # pages of this table alone, in the order in which they are filled
    fresh: int


def plan_compaction(pool: "PagePool", table: BlockTable, keep: IntArray) -> Compaction:
    """Plan one table; nothing moves yet. A stretch is never compacted: its dead slots are used again."""
    entries = table.entries.take(keep)
    count, size = len(entries), table.page_size
    fixed = count if table.stretch is not None else settled(entries.slots, size)
    wanted = -(-(count - fixed) // size)
    taken = set(pages_of(entries.slots[:fixed], size))
    candidates = dict.fromkeys([*pages_of(entries.slots[fixed:], size), *table.pages])
    mine = [page for page in candidates if page not in taken and pool.pages.writable(page)]
    targets = mine[:wanted]
    return Compaction(entries, fixed, targets, wanted - len(targets))


def compact(pool: "PagePool", table: BlockTable, plan: Compaction) -> None:
    """Move the tokens and let the emptied pages go. Every source is read before any target is written."""
    slots = plan.entries.slots
    if plan.fixed < len(slots):
        fresh = pool.pages.take(plan.fresh, table)
        table.pages = [*table.pages, *fresh]
        sources = slots[plan.fixed :]
        targets = slots_of(plan.targets + fresh, table.page_size)[: len(sources)]
        moved = sources != targets
        pool.move_slots(sources[moved], targets[moved])
        slots = np.concatenate([slots[: plan.fixed], targets])
    table.entries = Tokens(stretch_of(slots), plan.entries.positions, plan.entries.origins)
    if table.stretch is None:
        keep_pages(pool, table, pages_of(slots, table.page_size))
