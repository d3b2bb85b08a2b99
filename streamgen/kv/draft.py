"""What an open stage holds in one table: the pages it added, and how to take every step back."""

from typing import TYPE_CHECKING

import numpy as np

from streamgen.kv.plan import Plan
from streamgen.kv.sharing import keep_pages, move_others, repoint
from streamgen.kv.table import BlockTable, IntArray, Places, Tokens, array_of, pages_of, slots_of, stretch_of

if TYPE_CHECKING:
    from streamgen.kv.pool import PagePool


class Draft:
    """The staged tokens of one table. Until `commit` the table itself is as it was."""

    def __init__(self, pool: "PagePool", table: BlockTable, plan: Plan, positions: IntArray | None) -> None:
        self.pool = pool
        self.table = table
        self.plan = plan
        self.pages: list[int] = []  # held by this stage, not by the table
        self._saved: list[int] = []
        self.past = table.entries.take(plan.keep)
        try:
            self.staged = Tokens(self._open(), positions)
            self.visible = self.past.join(self.staged)
        except BaseException:
            pool.pages.release(self.pages, self)
            raise
        table.draft = self

    def _open(self) -> Places:
        """Take the pages; returns the slots of the staged tokens."""
        size, room = self.table.page_size, self.plan.room
        if self.plan.copy is not None:
            [copy] = self.pool.duplicate([self.plan.copy], self)
            self.pages.append(copy)
            self.past = self.past.moved(self.plan.copy, copy, size)
            room = stretch_of(array_of(room) + (copy - self.plan.copy) * size)
        if self.plan.fresh:
            last = int(self.past.places[-1]) // size if len(self.past) else -1
            # Rising pages: a prompt that is read in one go lies in the order of its tokens where it can.
            fresh = sorted(self.pool.pages.take(self.plan.fresh, self, behind=last))
            self.pages += fresh
            room = stretch_of(np.concatenate([array_of(room), slots_of(fresh, size)])[: self.plan.tokens])
        if self.plan.saves:
            self._saved = self.pool.duplicate(self.plan.saves, self)
            self.pages += self._saved
            for page, copy in zip(self.plan.saves, self._saved, strict=True):
                move_others(self.pool, self.table, page, copy)
        return room

    def commit(self, keep: IntArray | None) -> None:
        """Make the staged tokens (those in `keep`) part of the past; what is hidden now is let go."""
        self.pool.tally.evictions += self.plan.evicted
        self._settle(self.visible if keep is None else self.past.join(self._close_ranks(keep)))

    def discard(self) -> None:
        """Put everything back as it was before the stage."""
        self.pool.copy_pages(self._saved, self.plan.saves)
        for page, copy in zip(self.plan.saves, self._saved, strict=True):
            for holder in self.pool.pages.holders(copy):
                if isinstance(holder, BlockTable) and holder.draft is None:
                    repoint(self.pool, holder, copy, page)
        self._end()

    def _close_ranks(self, keep: IntArray) -> Tokens:
        staged = self.staged.take(keep)
        targets = self.staged.slots[: len(keep)]
        sources = staged.slots
        moved = sources != targets
        if moved.any():
            self.pool.move_slots(sources[moved], targets[moved])
        return Tokens(stretch_of(targets), staged.positions)

    def _settle(self, entries: Tokens) -> None:
        grows = self.past is self.table.entries
        self.table.entries = entries
        if self.table.stretch is None and grows and len(entries) == len(self.past) + self.plan.tokens:
            self.pool.pages.pass_on(self.pages, self, self.table)  # the common case: nothing is let go
            self.table.pages = self.table.pages + self.pages
            self.pages = []
        elif self.table.stretch is None:
            used = pages_of(entries.slots, self.table.page_size)
            arrived = set(used) - set(self.table.pages)
            self.pool.pages.pass_on([page for page in self.pages if page in arrived], self, self.table)
            self.pages = [page for page in self.pages if page not in arrived]
            keep_pages(self.pool, self.table, used)
        self._end()

    def _end(self) -> None:
        self.pool.pages.release(self.pages, self)
        self.pages = []
        self.table.draft = None
