"""Evicting any tokens and closing the gaps."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgen.errors import UsageError
from streamgen.kv import Arena, Geometry, OutOfPagesError, PagePool, SinkWindow
from tests.kv.model import DIM, HEADS, poison, push, stored


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 20), shared=st.booleans(), data=st.data())
def test_all_pages_but_the_last_are_full_after_an_eviction(
    count: int, shared: bool, data: st.DataObject
) -> None:
    pool = PagePool(Arena(), Geometry(2, HEADS, DIM, 4), 16)
    cache = pool.cache()
    push(cache, list(range(count)))
    fork = cache.fork() if shared else None
    keep = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    cache.evict(keep)
    poison(pool)
    pool.check()
    assert stored(cache) == [keep]
    assert len(cache.tables[0].pages) == -(-len(keep) // 4)
    stage = push(cache, [50])
    assert stage.views[0].pages is not None
    assert fork is None or stored(fork) == [list(range(count))]


def test_what_lies_right_is_not_moved(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, list(range(16)))
    cache.evict(np.array([*range(8), *range(12, 16)]))
    assert pool.counters().moves == 0
    cache.evict([*range(8), 9, 10])
    assert pool.counters().moves == 2
    assert pool.counters().evictions == 6


def test_a_shared_page_is_left_alone_and_read_from(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, list(range(8)))
    fork = cache.fork()
    fork.evict([0, 1, 2, 3, 5, 6])
    assert pool.counters().shared == 1
    assert (stored(fork), stored(cache)) == ([[0, 1, 2, 3, 5, 6]], [list(range(8))])


def test_each_table_keeps_its_own(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(layers=3, layers_per_page=1)
    cache = pool.cache()
    push(cache, list(range(9)))
    cache.evict([np.arange(9), np.array([8]), np.array([1, 3, 5, 7])])
    assert stored(cache) == [list(range(9)), [8], [1, 3, 5, 7]]
    push(cache, [20])
    assert [tokens[-1] for tokens in stored(cache)] == [20, 20, 20]
    with pytest.raises(UsageError, match="2 lists of indices; summary has 3 tables"):
        cache.name = "summary"
        cache.evict([[0], [0]])


def test_everything_can_be_evicted(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0, 1])
    cache.evict([])
    assert (cache.tokens, pool.pages.free) == (0, pool.pages.total)


def test_a_compaction_without_pages_is_refused_before_it_begins(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=2)
    cache = pool.cache()
    push(cache, list(range(8)))
    fork = cache.fork()
    with pytest.raises(OutOfPagesError, match="Compacting"):
        fork.evict([1, 2])
    assert stored(fork) == [list(range(8))]


def test_the_slots_of_a_ring_are_used_again_where_they_are(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(8), reserve=8)
    push(cache, list(range(8)))
    cache.evict([0, 3, 7])
    assert pool.counters().moves == 0
    push(cache, [20, 21, 22, 23, 24])
    assert stored(cache) == [[0, 3, 7, 20, 21, 22, 23, 24]]
    assert pool.counters().copies == 0
