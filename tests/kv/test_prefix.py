"""Equal beginnings are computed once."""

from collections.abc import Callable

import pytest

from streamgen.errors import UsageError
from streamgen.kv import CacheStateError, Causal, KVCache, PagePool, PrefixIndex
from streamgen.kv import prefix as prefix_module
from tests.kv.model import position, push, stored


def prefill(index: PrefixIndex, tokens: list[int], extra: str = "") -> tuple[KVCache, int]:
    """What a text pipeline does: adopt, compute the rest, publish."""
    cache = index.pool.cache()
    found = index.adopt(cache, tokens, extra)
    push(cache, tokens[found:], mask=Causal(), positions=[position(token) for token in tokens[found:]])
    index.publish(cache, tokens, extra)
    index.pool.check()
    return cache, found


@pytest.fixture
def index(pool: PagePool) -> PrefixIndex:
    return PrefixIndex(pool)


def test_an_equal_beginning_is_shared_page_by_page(index: PrefixIndex) -> None:
    one, found = prefill(index, list(range(10)))
    assert found == 0
    two, found = prefill(index, [*range(8), 50, 51])
    assert found == 8
    assert stored(two) == [[*range(8), 50, 51]]
    assert one.tables[0].pages[:2] == two.tables[0].pages[:2]
    assert index.pool.counters().copies == 0
    assert (index.asked, index.found) == (20, 8)
    assert two.positions.tolist() == [position(token) for token in [*range(8), 50, 51]]


def test_pages_stay_usable_after_their_stream_has_closed(index: PrefixIndex) -> None:
    one, _ = prefill(index, list(range(10)))
    one.close()
    assert index.pool.pages.free == index.pool.pages.total
    two, found = prefill(index, [*range(9), 60])
    assert found == 8
    assert stored(two) == [[*range(9), 60]]


def test_at_least_one_token_is_left_to_compute(index: PrefixIndex) -> None:
    prefill(index, list(range(8)))
    cache, found = prefill(index, list(range(8)))
    assert found == 7
    assert stored(cache) == [list(range(8))]
    assert index.pool.counters().copies == 1
    cache, found = prefill(index, [0])
    assert found == 0
    assert index.adopt(index.pool.cache(), []) == 0


def test_a_page_that_agrees_in_part_is_shared_and_copied_by_the_first_write(index: PrefixIndex) -> None:
    one, _ = prefill(index, list(range(8)))
    two, found = prefill(index, [0, 1, 2, 3, 4, 5, 90, 91])
    assert found == 6
    assert index.pool.counters().copies == 1
    assert (stored(one), stored(two)) == ([list(range(8))], [[0, 1, 2, 3, 4, 5, 90, 91]])
    one.close()
    three, found = prefill(index, [*range(7), 70])
    assert found == 7
    assert index.pool.counters().copies == 2
    assert stored(three) == [[*range(7), 70]]
    four, found = prefill(index, [*range(8), 80])
    assert found == 8
    assert stored(four) == [[*range(8), 80]]


def test_beginnings_outlive_endings_when_pages_are_needed(make_pool: Callable[..., PagePool]) -> None:
    index = PrefixIndex(make_pool(pages=6))
    prefill(index, list(range(16)))[0].close()
    push(index.pool.cache(), list(range(100, 116)))
    cache = index.pool.cache()
    assert index.adopt(cache, list(range(16))) == 8
    assert stored(cache) == [list(range(8))]


def test_a_forgotten_page_is_not_found_again(make_pool: Callable[..., PagePool]) -> None:
    index = PrefixIndex(make_pool(pages=3))
    prefill(index, list(range(8)))[0].close()
    blocker = index.pool.cache()
    push(blocker, list(range(100, 112)))
    assert index.adopt(index.pool.cache(), list(range(8))) == 0
    blocker.close()
    cache, found = prefill(index, list(range(8)))
    assert found == 0
    assert stored(cache) == [list(range(8))]


def test_extra_sets_equal_tokens_apart(index: PrefixIndex) -> None:
    prefill(index, list(range(9)), extra="adapter a")
    assert prefill(index, list(range(9)), extra="adapter b")[1] == 0
    assert prefill(index, list(range(9)), extra="adapter a")[1] == 8


def test_the_same_tokens_behind_another_beginning_are_not_the_same_page(index: PrefixIndex) -> None:
    prefill(index, [0, 1, 2, 3, 4, 5, 6, 7, 8])
    assert prefill(index, [9, 9, 9, 9, 4, 5, 6, 7, 8])[1] == 0


def test_equal_hashes_of_different_tokens_do_not_fool_the_index(
    index: PrefixIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix_module, "digest", lambda parent, tokens, extra: b"same")
    prefill(index, [0, 1, 2, 3, 4])
    cache, found = prefill(index, [5, 6, 7, 8, 9])
    assert found == 0
    assert stored(cache) == [[5, 6, 7, 8, 9]]


def test_a_page_under_a_new_name_loses_the_old_one(index: PrefixIndex) -> None:
    cache, _ = prefill(index, list(range(9)))
    index.publish(cache, list(range(9)), extra="b")
    assert index.adopt(index.pool.cache(), list(range(9))) == 0
    assert index.adopt(index.pool.cache(), list(range(9)), extra="b") == 8


def test_a_rewound_stream_does_not_write_into_a_published_page(index: PrefixIndex) -> None:
    cache, _ = prefill(index, list(range(8)))
    cache.rewind(3)
    push(cache, [90, 91, 92], positions=[position(token) for token in (90, 91, 92)])
    assert stored(cache) == [[0, 1, 2, 3, 4, 90, 91, 92]]
    other, found = prefill(index, [*range(8), 8])
    assert found == 8
    assert stored(other) == [list(range(9))]


def test_every_table_shares_its_own_pages(make_pool: Callable[..., PagePool]) -> None:
    index = PrefixIndex(make_pool(layers_per_page=1))
    prefill(index, list(range(9)))
    cache, found = prefill(index, [*range(8), 20])
    assert found == 8
    assert stored(cache) == [[*range(8), 20]] * 2


def test_what_cannot_be_shared_is_refused(index: PrefixIndex, make_pool: Callable[..., PagePool]) -> None:
    pool = index.pool
    cache = pool.cache()
    push(cache, list(range(9)))
    for wrong in (pool.cache(reserve=8), cache, make_pool().cache()):
        with pytest.raises(UsageError, match="cannot adopt"):
            index.adopt(wrong, [0, 1])
    for wrong in (pool.cache(reserve=8), make_pool().cache(), pool.cache()):
        with pytest.raises(UsageError, match="cannot publish"):
            index.publish(wrong, [0])
    cache.reposition([1], lambda k, shift: k, 1)
    with pytest.raises(UsageError, match="evicted or turned"):
        index.publish(cache, list(range(8)))
    gone = pool.cache()
    gone.close()
    with pytest.raises(CacheStateError):
        index.adopt(gone, [0, 1])
