"""Idle streams in host memory."""

from collections.abc import Callable

import pytest
import torch

from streamgen.errors import UsageError
from streamgen.kv import (
    Arena,
    CacheStateError,
    Geometry,
    OutOfPagesError,
    PagePool,
    SinkWindow,
    swap_in,
    swap_out,
)
from tests.kv.model import poison, push, stored


def test_a_group_comes_back_as_it_was_with_its_sharing(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, list(range(14)))
    fork = cache.fork()
    push(fork, [20, 21, 22])
    before = pool.counters()
    swapped = swap_out([cache, fork])
    assert pool.pages.free == pool.pages.total
    assert len(swapped.stored) == before.used == 6
    assert swapped.nbytes == 6 * pool.geometry.page_bytes
    poison(pool)
    push(pool.cache(), [99])
    swap_in(swapped)
    pool.check()
    after = pool.counters()
    assert (after.shared, after.used) == (before.shared, before.used + 1)
    assert (after.swapped_out, after.swapped_in) == (6, 6)
    assert (stored(cache), stored(fork)) == ([list(range(14))], [[*range(14), 20, 21, 22]])
    push(cache, [14])
    assert stored(fork) == [[*range(14), 20, 21, 22]]


def test_a_ring_comes_back_in_one_stretch_and_its_fork_beside_it(pool: PagePool) -> None:
    ring = pool.cache(SinkWindow(8, 3), reserve=11)
    for start in range(0, 24, 4):
        push(ring, list(range(start, start + 4)))
    fork, early = ring.fork(), pool.cache(SinkWindow(8), reserve=8)
    push(early, [50])
    past = stored(ring)
    swapped = swap_out([fork, ring, early])
    poison(pool)
    push(pool.cache(), [99])
    swap_in(swapped)
    pool.check()
    assert stored(ring) == stored(fork) == past
    stage = push(ring, [24, 25, 26, 27])
    assert len(stage.views[0].runs) == 1
    push(early, list(range(51, 59)))
    assert stored(fork) == past


def test_a_swapped_stream_takes_no_calls(pool: PagePool) -> None:
    cache = pool.cache(name="idle world")
    push(cache, [0])
    swapped = swap_out([cache])
    with pytest.raises(CacheStateError, match="idle world is swapped out and cannot take stage.*swap it in"):
        cache.stage(1)
    swap_in(swapped)
    push(cache, [1])
    with pytest.raises(CacheStateError, match="swapped in before"):
        swap_in(swapped)


def test_a_group_that_does_not_fit_stays_out_whole(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=6)
    one, two = pool.cache(), pool.cache()
    push(one, list(range(8)))
    push(two, list(range(20, 28)))
    swapped = swap_out([one, two])
    blocker = pool.cache()
    push(blocker, list(range(40, 52)))
    with pytest.raises(OutOfPagesError, match="Swapping in needs 4 pages and 3"):
        swap_in(swapped)
    assert pool.pages.free == 3
    pool.check()
    blocker.close()
    swap_in(swapped)
    assert (stored(one), stored(two)) == ([list(range(8))], [list(range(20, 28))])


def test_a_stretch_that_finds_no_neighbours_leaves_everything_free(
    make_pool: Callable[..., PagePool],
) -> None:
    pool = make_pool(pages=4)
    ring = pool.cache(reserve=8)
    push(ring, list(range(5)))
    swapped = swap_out([ring])
    caches = [pool.cache() for _ in range(4)]
    for cache in caches:
        push(cache, [0])
    caches[0].close()
    caches[2].close()
    with pytest.raises(OutOfPagesError, match="scattered"):
        swap_in(swapped)
    assert pool.pages.free == 2
    pool.check()
    caches[1].close()
    swap_in(swapped)
    assert stored(ring) == [list(range(5))]


def test_a_copy_that_fails_leaves_everything_out(pool: PagePool, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = pool.cache()
    push(cache, list(range(5)))
    swapped = swap_out([cache])
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(torch.Tensor, "index_copy_", _fail)
        swap_in(swapped)
    assert pool.pages.free == pool.pages.total
    swap_in(swapped)
    assert stored(cache) == [list(range(5))]


def _fail(*args: object) -> None:
    raise RuntimeError("out of memory")


def test_a_failed_copy_on_write_leaves_no_trace(pool: PagePool, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = pool.cache()
    push(cache, list(range(5)))
    fork = cache.fork()
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(torch.Tensor, "index_copy_", _fail)
        fork.stage(1)
    pool.check()
    assert pool.counters().used == 2
    push(fork, [5])
    assert stored(fork) == [list(range(6))]


def test_a_copy_that_fails_in_a_later_table_takes_the_earlier_ones_back(
    make_pool: Callable[..., PagePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(layers_per_page=1)
    cache = pool.cache()
    push(cache, [0, 1])
    fork, copied = cache.fork(), []
    copy_pages = pool.copy_pages

    def fail_at_the_second(sources: list[int], targets: list[int]) -> None:
        copied.append(sources)
        _fail() if len(copied) == 2 else copy_pages(sources, targets)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(pool, "copy_pages", fail_at_the_second)
        fork.stage(1)
    pool.check()
    assert pool.counters().used == 2
    push(fork, [2])
    assert (stored(cache), stored(fork)) == ([[0, 1]] * 2, [[0, 1, 2]] * 2)


def test_one_byte_floats_swap_too() -> None:
    pool = PagePool(Arena(), Geometry(1, 1, 2, 2, torch.float8_e4m3fn), 4)
    cache = pool.cache()
    token = torch.arange(1, 4, dtype=torch.float32).reshape(1, 3, 1, 1).expand(1, 3, 1, 2)
    cache.append(token, token)
    swapped = swap_out([cache])
    pool.k.view(torch.uint8).zero_()
    swap_in(swapped)
    assert cache.read(0)[0].float()[:, 0, 0].tolist() == [1, 2, 3]


def test_a_stream_that_was_closed_meanwhile_stays_away(pool: PagePool) -> None:
    one, two = pool.cache(), pool.cache()
    push(one, [0, 1, 2, 3, 4])
    push(two, [5])
    swapped = swap_out([one, two])
    one.close()
    swap_in(swapped)
    assert stored(two) == [[5]]
    assert pool.counters().used == 1


def test_a_stranger_keeps_the_pages_it_shared_with_the_group(pool: PagePool) -> None:
    one = pool.cache()
    push(one, [0, 1, 2, 3, 4])
    stranger = one.fork()
    swapped = swap_out([one])
    assert pool.counters().used == 2
    swap_in(swapped)
    pool.check()
    assert stored(one) == stored(stranger) == [[0, 1, 2, 3, 4]]


def test_only_idle_caches_of_one_pool_go_out_together(
    pool: PagePool, make_pool: Callable[..., PagePool]
) -> None:
    cache = pool.cache()
    for wrong in ([], [cache, cache], [cache, make_pool().cache()]):
        with pytest.raises(UsageError, match="different caches of one pool"):
            swap_out(wrong)
    with cache.stage(1), pytest.raises(CacheStateError):
        swap_out([cache])
