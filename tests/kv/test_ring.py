"""Bounded streams: one stretch, read where it lies."""

from collections.abc import Callable

import pytest
import torch

from streamgen.errors import UsageError
from streamgen.kv import (
    CacheStateError,
    Causal,
    KeepAll,
    OutOfPagesError,
    PagePool,
    ReserveFullError,
    SinkWindow,
    stage_together,
)
from tests.kv.model import DIM, HEADS, Model, push, seen, stored, write


def chunk(index: int, size: int) -> list[int]:
    return list(range(index * size, (index + 1) * size))


def test_a_full_ring_is_one_run_for_ever_and_costs_the_same_every_time(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(window=12, sink=4), reserve=16)
    for index in range(4):
        push(cache, chunk(index, 4))
    costs, shapes = set(), set()
    for index in range(4, 1204):
        before = pool.counters()
        with cache.stage(4) as stage:
            write(stage, chunk(index, 4))
            opened = pool.counters()
            [view] = stage.views
            shapes.add((view.runs, len(view.slots), view.past, view.staged_run is not None))
            stage.commit()
        costs.add((opened.copies - before.copies, before.free - opened.free, pool.counters().free))
    start = cache.tables[0].stretch.start
    assert shapes == {(((start, start + 16),), 16, 12, True)}
    assert costs == {(1, 1, 28)}
    assert stored(cache) == [[0, 1, 2, 3, *range(1204 * 4 - 12, 1204 * 4)]]


@pytest.mark.parametrize(("window", "sink", "size"), [(8, 3, 3), (7, 0, 2), (9, 2, 5), (10, 5, 10)])
def test_a_full_ring_is_one_run_whatever_pages_sink_and_chunk_measure(
    pool: PagePool, window: int, sink: int, size: int
) -> None:
    cache = pool.cache(SinkWindow(window, sink), reserve=window + sink)
    model = Model(window, sink)
    most = -(-size // 4) + 3  # a chunk that goes round touches pages at both ends
    for index in range(60):
        visible = model.visible(size, ordered=False, replace=0)
        before = pool.counters().copies
        with cache.stage(size) as stage:
            assert seen(stage) == [visible]
            if len(model.past) == window + sink:
                assert len(stage.views[0].runs) == 1
            assert pool.counters().copies - before <= most
            write(stage, chunk(index, size))
            stage.commit()
        model.commit(visible, chunk(index, size))
        assert stored(cache) == [model.past]
        pool.check()
        assert pool.counters().free == 32 - -(-(window + sink) // 4)


@pytest.mark.parametrize("size", [7, 8, 9])
def test_chunks_around_the_window_fit_or_are_refused(pool: PagePool, size: int) -> None:
    cache = pool.cache(SinkWindow(8, 3), reserve=11)
    push(cache, [0, 1, 2])
    if size > 8:
        with pytest.raises(
            ReserveFullError, match="9 tokens were staged behind 3 visible ones in a reserve of 11"
        ):
            cache.stage(size)
        assert stored(cache) == [[0, 1, 2]]
        return
    for index in range(1, 5):
        numbers = chunk(index, size)
        push(cache, numbers)
    assert stored(cache)[0][:3] == [0, 1, 2]
    assert stored(cache)[0][-size:] == numbers


def test_a_chunk_larger_than_the_window_passes_through_an_unreserved_cache(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(4, 2))
    push(cache, list(range(30)))
    assert stored(cache) == [[0, 1, 26, 27, 28, 29]]
    assert pool.counters().used == 3


@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_discarded_chunk_brings_back_what_it_overwrote(pool: PagePool, size: int) -> None:
    cache = pool.cache(SinkWindow(8, 3), reserve=11)
    for index in range(7):
        push(cache, chunk(index, 3))
    past, free = stored(cache), pool.pages.free
    with cache.stage(size) as stage:
        write(stage, [900 + token for token in range(size)])
    assert stored(cache) == past
    assert pool.pages.free == free
    pool.check()


def test_slack_saves_the_copies(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(8), reserve=12)
    for index in range(20):
        push(cache, chunk(index, 4))
    assert pool.counters().copies == 0
    assert stored(cache) == [list(range(72, 80))]


def test_a_causal_ring_with_room_for_the_chunk_keeps_its_window(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(8, 2), reserve=2 + 7 + 5)
    for index in range(9):
        stage = push(cache, chunk(index, 5), mask=Causal())
    assert stage.past == 9
    assert stage.mask == Causal(8, 2)
    assert stored(cache) == [[0, 1, *range(37, 45)]]


def test_a_bounded_stream_refuses_to_outgrow_its_reserve(pool: PagePool) -> None:
    cache = pool.cache(KeepAll(), reserve=6)
    push(cache, [0, 1, 2, 3])
    with pytest.raises(ReserveFullError, match="reserve at least 7"):
        cache.stage(3)
    push(cache, [4, 5])
    assert stored(cache) == [[0, 1, 2, 3, 4, 5]]


def test_the_tail_of_a_full_ring_can_be_done_again(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(8, 4), reserve=12)
    for index in range(6):
        push(cache, chunk(index, 4))
    stage = push(cache, [90, 91, 92, 93], replace=4)
    assert len(stage.views[0].runs) == 1
    assert stored(cache) == [[0, 1, 2, 3, 16, 17, 18, 19, 90, 91, 92, 93]]


def test_a_ring_goes_on_from_a_rewind(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(8, 4), reserve=12)
    for index in range(6):
        push(cache, chunk(index, 4))
    cache.rewind(4)
    assert stored(cache) == [[0, 1, 2, 3, 16, 17, 18, 19]]
    push(cache, [90, 91, 92, 93])
    assert stored(cache) == [[0, 1, 2, 3, 16, 17, 18, 19, 90, 91, 92, 93]]


def test_the_owner_keeps_its_place_and_a_fork_moves_away(pool: PagePool) -> None:
    ring = pool.cache(SinkWindow(8, 4), reserve=12)
    for index in range(5):
        push(ring, chunk(index, 4))
    fork, second = ring.fork(), ring.fork()
    past, before = stored(ring), pool.counters()
    assert (before.copies, before.shared) == (pool.counters().copies, 3)
    with ring.stage(4) as stage:
        write(stage, chunk(50, 4))
        pool.check()
        assert pool.counters().copies == before.copies + 1
        assert stored(fork) == stored(second) == past
    assert pool.counters().free == before.free
    assert pool.counters().shared == 3
    stage = push(ring, chunk(5, 4))
    assert len(stage.views[0].runs) == 1
    assert stored(fork) == stored(second) == past
    push(fork, chunk(60, 4))
    push(second, chunk(70, 4))
    assert stored(ring) == [[0, 1, 2, 3, *range(16, 24)]]
    assert stored(fork) == [[0, 1, 2, 3, *range(16, 20), *range(240, 244)]]
    assert stored(second) == [[0, 1, 2, 3, *range(16, 20), *range(280, 284)]]
    ring.close()
    fork.close()
    second.close()
    assert pool.pages.free == pool.pages.total


def test_a_fork_that_closes_or_branches_during_the_owners_stage_is_no_trouble(pool: PagePool) -> None:
    ring = pool.cache(SinkWindow(8), reserve=8)
    push(ring, chunk(0, 8))
    fork = ring.fork()
    with ring.stage(4) as stage:
        write(stage, chunk(9, 4))
        branch = fork.fork()
        fork.close()
        pool.check()
    pool.check()
    assert stored(branch) == stored(ring) == [list(range(8))]


def test_a_page_that_a_fork_is_reading_is_not_pulled_away(pool: PagePool) -> None:
    ring = pool.cache(SinkWindow(8), reserve=8)
    push(ring, chunk(0, 8))
    fork = ring.fork()
    with fork.stage(4), pytest.raises(CacheStateError, match="stage_together"):
        ring.stage(4)
    for stage, numbers in zip(
        stage_together([fork, ring], 4), ([90, 91, 92, 93], [8, 9, 10, 11]), strict=True
    ):
        write(stage, numbers)
        pool.check()
        stage.commit()
    assert stored(fork) == [[4, 5, 6, 7, 90, 91, 92, 93]]
    assert stored(ring) == [[4, 5, 6, 7, 8, 9, 10, 11]]


def test_a_fork_that_began_during_the_owners_stage_keeps_reading_after_a_discard(pool: PagePool) -> None:
    ring = pool.cache(SinkWindow(8), reserve=8)
    push(ring, chunk(0, 8))
    fork = ring.fork()
    owner = ring.stage(4)
    write(owner, chunk(9, 4))
    reader = fork.stage(2)
    owner.discard()
    assert seen(reader) == [[2, 3, 4, 5, 6, 7]]
    reader.discard()
    pool.check()
    assert stored(fork) == stored(ring) == [list(range(8))]


def test_the_fork_of_a_ring_writes_into_pages_of_its_own(pool: PagePool) -> None:
    ring = pool.cache(SinkWindow(10), reserve=10)
    for index in range(6):
        push(ring, chunk(index, 3))
    fork = ring.fork()
    past = stored(ring)
    for index in range(20, 26):
        push(fork, chunk(index, 3))
        pool.check()
    assert stored(ring) == past
    assert stored(fork) == [list(range(68, 78))]


def test_the_fork_of_a_ring_never_writes_over_older_tokens_of_its_last_page(pool: PagePool) -> None:
    ring = pool.cache(SinkWindow(8), reserve=8)
    for index in range(3):
        push(ring, chunk(index, 3))
    assert ring.tables[0].slots[-1] % 4 == 0  # token 8 went round; tokens 1 to 3 lie behind it in its page
    fork = ring.fork()
    ring.close()
    push(fork, [20, 21])
    assert stored(fork) == [[3, 4, 5, 6, 7, 8, 20, 21]]
    pool.check()


def test_without_pages_for_the_copies_a_ring_refuses_and_stays(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=2)
    ring = pool.cache(SinkWindow(8), reserve=8)
    push(ring, chunk(0, 8))
    with pytest.raises(OutOfPagesError, match="needs 1 pages and 0"):
        ring.stage(4)
    assert stored(ring) == [list(range(8))]


def test_a_reserve_is_taken_whole_or_not_at_all(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=6, layers_per_page=1)
    with pytest.raises(OutOfPagesError, match="The reserve of big needs 8 pages"):
        pool.cache(reserve=16, name="big")
    single = torch.zeros(1, 1, HEADS, DIM)
    caches = [pool.cache() for _ in range(5)]
    for cache in caches:
        cache.append(single, single, tables=[0])
    for number in (0, 1, 3):
        caches[number].close()
    with pytest.raises(OutOfPagesError, match="scattered"):
        pool.cache(reserve=8)
    assert pool.pages.free == 4
    pool.check()
    with pytest.raises(UsageError, match="0 for none"):
        pool.cache(reserve=-1)
