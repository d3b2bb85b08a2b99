"""Who holds which page: a free list in two arrays and the holders of every page in use.

Taking, releasing and reviving a page are O(1): the free list is doubly linked through arrays, so a page
leaves it from the middle as fast as from an end. Only a contiguous stretch is searched for, once, when a
bounded stream opens. A marked page (see `mark`) keeps its contents usable after its last holder has left,
until somebody takes it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from streamgen.kv.errors import OutOfPagesError


class Holder(Protocol):
    """Whoever lists a page: the table of a cache, or an open stage."""

    pages: list[int]


class Pages:
    """The pages of one pool: which are free, and who holds the others."""

    def __init__(self, total: int, name: str = "pool") -> None:
        self.total = total
        self.name = name
        self.free = total
        end = total  # one extra node closes the ring: its next is the head, its previous the tail
        self._next = [*range(1, total + 1), 0]
        self._previous = [end, *range(total)]
        self._holders: list[dict[Holder, None] | None] = [None] * total
        self._marks: dict[int, Callable[[], None]] = {}

    def refs(self, page: int) -> int:
        return len(self._holders[page] or ())

    def holders(self, page: int) -> tuple[Holder, ...]:
        return tuple(self._holders[page] or ())

    def writable(self, page: int) -> bool:
        """True when one holder has the page and nobody else relies on its contents."""
        return self.refs(page) == 1 and page not in self._marks

    def require(self, count: int, why: str) -> None:
        """Refuse, before anything changes, when fewer than `count` pages are free."""
        if count > self.free:
            raise OutOfPagesError(
                f"{why} needs {count} pages and {self.free} of the {self.total} pages of {self.name} "
                f"are free; close a session, swap one out, or build the pool with more pages."
            )

    def take(self, count: int, holder: Holder, behind: int | None = None) -> list[int]:
        """Take free pages, the least recently used first.

        Given the page `behind` which they will be read, its neighbours are taken while nobody vouches for
        their contents: what is read together then lies together.
        """
        self.require(count, "This call")
        taken: list[int] = []
        for _ in range(count):
            page = self._next[self.total]
            if behind is not None and self._idle(behind + 1):
                page = behind + 1
            self._claim(page, holder)
            taken.append(page)
            behind = None if behind is None else page
        return taken

    def take_stretch(self, count: int, holder: Holder) -> list[int]:
        """Take neighbouring pages, so that what is stored in them reads as one run."""
        self.require(count, "A reserve")
        first = self._find_stretch(count)
        stretch = list(range(first, first + count))
        for page in stretch:
            self._claim(page, holder)
        return stretch

    def hold(self, page: int, holder: Holder) -> None:
        """Add a holder; a marked page that lies in the free list comes back to life."""
        holders = self._holders[page]
        if holders is None:
            assert page in self._marks, f"page {page} is free and nobody vouches for its contents"
            self._unlink(page)
            self._holders[page] = {holder: None}
            return
        assert holder not in holders, f"page {page} is already held by this holder"
        holders[holder] = None

    def release(self, pages: Iterable[int], holder: Holder) -> None:
        """Let pages go, the last one first: heads of marked chains then live longest."""
        for page in reversed(list(pages)):
            holders = self._holders[page]
            assert holders is not None and holder in holders, f"page {page} is not held by this holder"
            del holders[holder]
            if not holders:
                self._holders[page] = None
                self._link(page, last=page in self._marks)

    def pass_on(self, pages: Sequence[int], giver: Holder, taker: Holder) -> None:
        for page in pages:
            self.hold(page, taker)
            self.release([page], giver)

    def mark(self, page: int, forget: Callable[[], None]) -> None:
        """Keep the contents usable for later; `forget` is called when the page is taken again."""
        self._marks[page] = forget

    def unmark(self, page: int) -> None:
        self._marks.pop(page, None)

    def forget(self, page: int) -> None:
        """Tell whoever marked the page that its contents are about to go."""
        forget = self._marks.pop(page, None)
        if forget is not None:
            forget()

    def free_pages(self) -> list[int]:
        """The free list from its head, for checks and tests."""
        pages, page = [], self._next[self.total]
        while page != self.total:
            pages.append(page)
            page = self._next[page]
        return pages

    def _idle(self, page: int) -> bool:
        return page < self.total and self._holders[page] is None and page not in self._marks

    def _claim(self, page: int, holder: Holder) -> None:
        self._unlink(page)
        self._holders[page] = {holder: None}
        self.forget(page)

    def _unlink(self, page: int) -> None:
        before, after = self._previous[page], self._next[page]
        self._next[before], self._previous[after] = after, before
        self.free -= 1

    def _link(self, page: int, last: bool) -> None:
        end = self.total
        before = self._previous[end] if last else end
        after = self._next[before]
        self._next[before] = self._previous[after] = page
        self._previous[page], self._next[page] = before, after
        self.free += 1

    def _find_stretch(self, count: int) -> int:
        if count == 0:
            return 0
        used = np.array([holders is not None for holders in self._holders], dtype=np.int64)
        taken = np.concatenate([[0], np.cumsum(used)])
        starts = np.flatnonzero(taken[count:] == taken[:-count])
        if len(starts) == 0:
            raise OutOfPagesError(
                f"A reserve needs {count} neighbouring pages; {self.free} of the {self.total} pages of "
                f"{self.name} are free but scattered. Open bounded streams first, or build the pool with "
                f"more pages."
            )
        return int(starts[0])
