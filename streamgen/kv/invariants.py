"""The promises of a pool about its own books, as assertions."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from streamgen.kv.draft import Draft
from streamgen.kv.table import BlockTable, pages_of

if TYPE_CHECKING:
    from streamgen.kv.pages import Holder
    from streamgen.kv.pool import PagePool


def check_pool(pool: "PagePool") -> None:
    """Assert that reference counts equal table entries, and that no page has two writers."""
    tables = [table for cache in pool.caches for table in cache.tables]
    drafts = [table.draft for table in tables if table.draft is not None]
    _check_references(pool, [*tables, *drafts])
    _check_free_list(pool)
    _check_tails(pool, tables, drafts)
    for table in tables:
        _check_table(table)


def _check_references(pool: "PagePool", holders: "list[Holder]") -> None:
    entries = Counter(page for holder in holders for page in holder.pages)
    for page in range(pool.pages.total):
        assert pool.pages.refs(page) == entries[page], (
            f"page {page} counts {pool.pages.refs(page)} references and {entries[page]} tables list it"
        )
    for holder in holders:
        for page in holder.pages:
            assert holder in pool.pages.holders(page), f"page {page} does not know one of its holders"


def _check_free_list(pool: "PagePool") -> None:
    listed = pool.pages.free_pages()
    used = [page for page in range(pool.pages.total) if pool.pages.refs(page)]
    assert len(listed) == len(set(listed)) == pool.pages.free, (
        f"{len(listed)} listed, {pool.pages.free} counted"
    )
    assert len(listed) + len(used) == pool.pages.total, f"{len(listed)} free + {len(used)} used pages"
    assert not set(listed) & set(used), f"pages {set(listed) & set(used)} are free and in use"


def _check_tails(pool: "PagePool", tables: list[BlockTable], drafts: list[Draft]) -> None:
    writers = Counter(
        page for draft in drafts for page in pages_of(draft.staged.slots, pool.geometry.page_size)
    )
    for page, count in writers.items():
        assert count == 1, f"page {page} is being written by {count} stages"
        readers = sum(page in table.pages for table in tables)
        assert readers <= 1, f"page {page} is being written and {readers} tables list it"


def _check_table(table: BlockTable) -> None:
    used = pages_of(table.slots, table.page_size)
    assert len(set(table.slots.tolist())) == table.tokens, "two tokens share a slot"
    assert len(set(table.pages)) == len(table.pages), f"a page is listed twice in {table.pages}"
    if table.stretch is None:
        assert sorted(used) == sorted(table.pages), f"tokens lie in {used}, the table lists {table.pages}"
    else:
        assert set(used) <= set(table.pages), f"tokens lie in {used}, the stretch is {table.pages}"
        assert np.isin(table.slots, np.asarray(table.stretch)).all(), "a token lies outside its stretch"
