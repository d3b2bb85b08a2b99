"""Where staged tokens will lie: pure planning, so that a stage is counted before anything changes.

n stored tokens, S page size. All arrays are int64 on the host. Behind a stream that lies in one stretch and
forgets nothing, a plan costs the same however long it is.
"""

from dataclasses import dataclass

import numpy as np

from streamgen.kv.errors import ReserveFullError
from streamgen.kv.pages import Pages
from streamgen.kv.table import BlockTable, IntArray, Places, array_of, pages_of


@dataclass(frozen=True)
class Plan:
    """What one stage needs in one table."""

    tokens: int
    keep: Places  # logical indices of the visible past
    room: Places  # slots that exist already, in the order in which they are taken
    fresh: int  # new pages for the rest
    copy: int | None = None  # page that is copied first because others rely on it; `room` lies in the copy
    evicted: int = 0  # tokens that the retention lets go at the commit
    saves: tuple[int, ...] = ()  # pages of a stretch whose old contents are still needed elsewhere

    @property
    def pages(self) -> int:
        return self.fresh + len(self.saves) + (self.copy is not None)


def plan_table(table: BlockTable, pages: Pages, keep: Places, replace: int, tokens: int) -> Plan:
    """Plan `tokens` new ones while `keep` stays visible and the last `replace` stored ones give way."""
    if tokens == 0:
        return Plan(0, range(table.tokens), range(0), 0)
    if table.stretch is not None:
        return _plan_ring(table, table.stretch, pages, keep, replace, tokens)
    return _plan_tail(table, pages, keep, replace, tokens)


def _plan_tail(table: BlockTable, pages: Pages, keep: Places, replace: int, tokens: int) -> Plan:
    room, copy = _tail_room(table, pages, keep, table.tokens - replace)
    room = room[:tokens]
    fresh = -(-(tokens - len(room)) // table.page_size)
    evicted = table.tokens - replace - len(keep)
    return Plan(tokens, keep, room, fresh, copy if len(room) else None, evicted)


def _tail_room(table: BlockTable, pages: Pages, keep: Places, stays: int) -> tuple[Places, int | None]:
    """Slots behind token `stays` - 1 in its page, and that page if it must be copied before the write."""
    if stays == 0:
        return range(0), None
    size, last = table.page_size, int(table.entries.places[stays - 1])
    page = last // size
    start, stop = page * size, (page + 1) * size
    behind = table.entries.within(last + 1, stop)
    if len(behind) and behind[0] < stays:  # a page that was part of a ring: older tokens lie there
        return range(0), None
    copy = len(behind) > 0 or not pages.writable(page)
    if copy and not len(table.entries.take(keep).within(start, stop)):
        return range(0), None
    return range(last + 1, stop), page if copy else None


def _plan_ring(
    table: BlockTable, stretch: range, pages: Pages, keep: Places, replace: int, tokens: int
) -> Plan:
    dead = _dead_slots(table, stretch)
    room = np.concatenate([dead, np.delete(table.slots, array_of(keep))])[:tokens]
    if len(room) < tokens:
        raise ReserveFullError(
            f"{tokens} tokens were staged behind {len(keep)} visible ones in a reserve of {len(stretch)}; "
            f"keep fewer (a retention with a smaller window) or reserve at least {len(keep) + tokens} tokens."
        )
    overwritten = set(pages_of(room[len(dead) :], table.page_size))
    touched = sorted(pages_of(room, table.page_size))
    saves = tuple(page for page in touched if page in overwritten or not pages.writable(page))
    return Plan(tokens, keep, room, 0, evicted=table.tokens - replace - len(keep), saves=saves)


def _dead_slots(table: BlockTable, stretch: range) -> IntArray:
    """Unused slots of the stretch, going round from the newest token."""
    used = np.zeros(len(stretch), dtype=np.bool_)
    used[table.slots - stretch.start] = True
    dead = np.flatnonzero(~used) + stretch.start
    newest = int(table.slots[-1]) if table.tokens else stretch.start - 1
    return np.concatenate([dead[dead > newest], dead[dead < newest]])
