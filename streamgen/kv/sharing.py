"""What happens to a page that several tables hold when one of them is about to write into it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamgen.kv.errors import CacheStateError
from streamgen.kv.table import BlockTable

if TYPE_CHECKING:
    from streamgen.kv.pool import PagePool


def keep_pages(pool: "PagePool", table: BlockTable, used: list[int]) -> None:
    """List only the pages that still hold tokens; the others go back."""
    wanted = set(used)
    pool.pages.release([page for page in table.pages if page not in wanted], table)
    table.pages = used


def repoint(pool: "PagePool", table: BlockTable, old: int, new: int) -> None:
    """Let a table go on with another page of the same contents."""
    pool.pages.hold(new, table)
    pool.pages.release([old], table)
    table.repoint(old, new)


def move_others(pool: "PagePool", table: BlockTable, page: int, copy: int) -> None:
    """The owner of a stretch keeps its place; everybody else goes on with the copy."""
    for holder in pool.pages.holders(page):
        if isinstance(holder, BlockTable) and holder is not table:
            repoint(pool, holder, page, copy)
    pool.pages.forget(page)


def refuse_if_read(pool: "PagePool", table: BlockTable, pages: Iterable[int]) -> None:
    """A page of a stretch that another open stage is reading cannot be moved away under it."""
    for page in pages:
        for holder in pool.pages.holders(page):
            if isinstance(holder, BlockTable) and holder is not table and holder.draft is not None:
                raise CacheStateError(
                    "This bounded stream is about to overwrite a page that a fork of it is reading in an "
                    "open stage; commit or discard that stage first, or open both with stage_together()."
                )


def foreign_pages(pool: "PagePool", pages: Iterable[int]) -> list[int]:
    """The pages among these that must be copied before a write."""
    return [page for page in pages if not pool.pages.writable(page)]


def own_pages(pool: "PagePool", table: BlockTable, pages: list[int]) -> None:
    """Copy each of these shared pages once, so that `table` may write into what it lists."""
    copies = pool.duplicate(pages, table)
    for page, copy in zip(pages, copies, strict=True):
        if table.stretch is None:
            pool.pages.release([page], table)
            table.repoint(page, copy)
        else:
            move_others(pool, table, page, copy)
            pool.pages.release([copy], table)
