"""Numbers about a pool, and its own checks."""

from collections.abc import Callable

import numpy as np
import pytest

from streamgen.errors import UsageError
from streamgen.kv import Arena, CacheStateError, Geometry, PagePool
from streamgen.kv.table import Tokens
from tests.kv.model import push


def test_a_ragged_mix_of_streams_fills_its_pages() -> None:
    lengths = np.random.default_rng(0).integers(200, 2001, 64)
    geometry = Geometry(layers=1, kv_heads=1, head_dim=1, page_size=16)
    pool = PagePool(Arena(), geometry, sum(geometry.pages(int(length)) for length in lengths))
    for length in lengths.tolist():
        cache = pool.cache()
        while cache.tokens < length:
            cache.stage(min(97, length - cache.tokens)).commit()
    counters = pool.counters()
    assert counters.fill >= 0.96
    assert counters.free == 0
    assert counters.bytes_tokens == lengths.sum() * geometry.slot_bytes
    assert counters.bytes_tokens / counters.bytes_reserved == counters.fill


def test_shared_tokens_count_once(pool: PagePool) -> None:
    assert pool.counters().fill == 1.0
    cache = pool.cache()
    push(cache, [0, 1, 2, 3, 4])
    alone = pool.counters()
    cache.fork()
    both = pool.counters()
    assert (alone.fill, both.fill) == (5 / 8, 5 / 8)
    assert (alone.shared, both.shared, both.used) == (0, 2, 2)


def test_the_check_finds_a_lost_reference(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0])
    cache.tables[0].pages.append(9)
    with pytest.raises(AssertionError, match="page 9 counts 0 references and 1 tables"):
        pool.check()


def test_the_check_finds_two_writers(pool: PagePool) -> None:
    cache, fork = pool.cache(), None
    push(cache, [0])
    fork = cache.fork()
    with cache.stage(1) as stage:
        stage._drafts[0].staged = Tokens(fork.tables[0].slots + 1)
        with pytest.raises(AssertionError, match="is being written and 2 tables list it"):
            pool.check()


def test_a_closed_pool_gives_its_bytes_back_and_opens_nothing(make_pool: Callable[..., PagePool]) -> None:
    with make_pool() as pool:
        cache = pool.cache()
        push(cache, [0])
    assert pool.arena.held == 0
    assert cache.state == "closed"
    with pytest.raises(CacheStateError, match="closed"):
        pool.cache()
    pool.close()


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(UsageError, match="holds nothing"):
        PagePool(Arena(), Geometry(1, 1, 1, 1), 0)
