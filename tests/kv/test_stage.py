"""Stage, overwrite, commit."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.kv import CacheStateError, KVCache, OutOfPagesError, PagePool, SinkWindow, Tree, stage_together
from tests.kv.model import DIM, HEADS, push, rows, seen, stored, values, write


def books(pool: PagePool) -> tuple[object, ...]:
    tables = [table for cache in pool.caches for table in cache.tables]
    return pool.pages.free, [list(t.pages) for t in tables], [t.slots.tolist() for t in tables]


def test_staged_tokens_are_not_part_of_the_past_until_they_are_committed(pool: PagePool) -> None:
    cache = pool.cache()
    with cache.stage(3) as stage:
        write(stage, [0, 1, 2])
        assert (cache.tokens, stage.past, stage.tokens) == (0, 0, 3)
        stage.commit()
    assert stored(cache) == [[0, 1, 2]]


def test_every_pass_overwrites_the_staged_keys_and_values(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0, 1])
    with cache.stage(3) as stage:
        for noisy in ([7, 8, 9], [70, 80, 90], [2, 3, 4]):
            write(stage, noisy)
        stage.commit()
    assert stored(cache) == [[0, 1, 2, 3, 4]]


def test_a_discarded_stage_leaves_no_trace(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0, 1, 2, 3, 4])
    other = cache.fork()
    before = books(pool)
    with cache.stage(9) as stage:
        write(stage, list(range(50, 59)))
    assert books(pool) == before
    assert stored(cache) == stored(other) == [[0, 1, 2, 3, 4]]


def test_an_error_inside_the_block_discards_the_stage(pool: PagePool) -> None:
    cache = pool.cache()
    with pytest.raises(ZeroDivisionError), cache.stage(2):
        raise ZeroDivisionError
    assert cache.tokens == 0
    push(cache, [0])


def test_one_stage_at_a_time(pool: PagePool) -> None:
    cache = pool.cache(name="world")
    with cache.stage(1):
        for call in (
            lambda: cache.stage(1),
            cache.fork,
            lambda: cache.rewind(0),
            lambda: cache.evict([]),
            lambda: cache.read(0),
        ):
            with pytest.raises(CacheStateError, match="world has an open stage"):
                call()


def test_a_stage_ends_once(pool: PagePool) -> None:
    stage = pool.cache().stage(1)
    stage.discard()
    for call in (stage.commit, stage.discard):
        with pytest.raises(CacheStateError, match="committed or discarded before"):
            call()


def test_closing_discards_an_open_stage_and_gives_every_page_back(pool: PagePool) -> None:
    with pool.cache() as cache:
        push(cache, [0])
        cache.stage(5)
    assert pool.pages.free == pool.pages.total
    cache.close()
    with pytest.raises(CacheStateError, match="is closed"):
        cache.stage(1)


def test_too_few_pages_are_refused_before_anything_changes(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=3)
    cache = pool.cache(name="clip")
    push(cache, [0, 1, 2, 3, 4])
    before = books(pool)
    with pytest.raises(OutOfPagesError, match="Staging 8 tokens in clip needs 2 pages and 1 of the 3"):
        cache.stage(8)
    assert books(pool) == before
    push(cache, list(range(5, 12)))
    assert stored(cache) == [list(range(12))]


@pytest.mark.parametrize("scale", [1, 3, 4, 5, 8])
def test_the_accepted_path_of_a_tree_stays_in_order_without_gaps(pool: PagePool, scale: int) -> None:
    cache = pool.cache()
    push(cache, list(range(scale)))
    tree = Tree((-1, 0, 0, 2, 3, 2))
    push(cache, [100, 101, 102, 103, 104, 105], keep=torch.tensor([0, 2, 5]), mask=tree)
    assert stored(cache) == [[*range(scale), 100, 102, 105]]
    assert cache.tables[0].entries.slots.tolist() == list(range(scale + 3))
    push(cache, [200], keep=[])
    assert cache.tokens == scale + 3
    pool.check()


@pytest.mark.parametrize("keep", [[1, 0], [0, 0], [3], [-1]])
def test_a_path_that_does_not_rise_is_refused(pool: PagePool, keep: list[int]) -> None:
    with pool.cache().stage(3) as stage, pytest.raises(UsageError):
        stage.commit(keep)


@pytest.mark.parametrize("replace", [1, 2, 4, 5, 10])
def test_replacing_the_tail_hides_it_now_and_drops_it_at_the_commit(pool: PagePool, replace: int) -> None:
    cache = pool.cache()
    push(cache, list(range(10)))
    before = books(pool)
    with cache.stage(3, replace=replace) as stage:
        write(stage, [90, 91, 92])
        assert seen(stage) == [list(range(10 - replace))]
    assert books(pool) == before
    assert stored(cache) == [list(range(10))]
    stage = push(cache, [20, 21, 22], replace=replace)
    assert stored(cache) == [[*range(10 - replace), 20, 21, 22]]
    assert stage.views[0].pages is not None
    assert len(cache.tables[0].pages) == -(-(13 - replace) // 4)


def test_more_than_the_past_cannot_be_replaced(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0])
    with pytest.raises(UsageError, match="2 tokens cannot be replaced"):
        cache.stage(2, replace=2)
    with pytest.raises(UsageError, match="stages nothing"):
        cache.stage(0)


def test_staging_together_is_all_or_nothing(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=5)
    caches = [pool.cache() for _ in range(3)]
    for cache in caches:
        push(cache, [0, 1, 2])
    before = books(pool)
    with pytest.raises(OutOfPagesError):
        stage_together(caches, 3)
    assert books(pool) == before
    stages = stage_together(caches[:2], 3, positions=None)
    for number, stage in enumerate(stages):
        assert stage.cache is caches[number]
        write(stage, [3, 4, 5])
        stage.commit()
    assert stored(caches[1]) == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(UsageError, match="2 entries of positions were given for 3 caches"):
        stage_together(caches, 1, positions=[[0], [0]])


def test_forks_that_write_together_each_get_their_own_page(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0, 1, 2])
    caches = [cache, cache.fork(), cache.fork()]
    for number, stage in enumerate(stage_together(caches, 1)):
        write(stage, [10 + number])
        pool.check()
        stage.commit()
    assert [stored(cache)[0] for cache in caches] == [[0, 1, 2, 10 + number] for number in range(3)]


def test_positions_travel_with_their_tokens(pool: PagePool) -> None:
    cache = pool.cache()
    grid = torch.tensor([[0, 0, 0], [0, 0, 1], [0, 1, 0]])
    push(cache, [0, 1, 2], positions=grid)
    stage = push(cache, [3], positions=[[1, 0, 0]])
    assert stage.positions.tolist() == [[1, 0, 0]]
    assert stage.views[0].positions.tolist() == [*grid.tolist(), [1, 0, 0]]
    push(cache, [4, 5], positions=np.array([[2, 0, 0], [3, 0, 0]]), keep=[1])
    cache.evict([0, 3, 4])
    assert cache.positions.tolist() == [[0, 0, 0], [1, 0, 0], [3, 0, 0]]


def test_tables_can_have_clocks_of_their_own(make_pool: Callable[..., PagePool]) -> None:
    cache = make_pool(layers_per_page=1).cache()
    push(cache, [0, 1], positions=[np.array([0, 1]), np.array([5, 6])])
    assert [table.positions.tolist() for table in cache.tables] == [[0, 1], [5, 6]]


def test_positions_are_given_for_all_tokens_or_for_none(pool: PagePool) -> None:
    with_them, without = pool.cache(), pool.cache()
    push(with_them, [0], positions=[0])
    push(without, [0])
    assert without.positions is None
    with pytest.raises(UsageError, match="give the positions"):
        with_them.stage(1)
    with pytest.raises(UsageError, match="begun without positions"):
        without.stage(1, positions=[1])
    with pytest.raises(UsageError, match="shape"):
        with_them.stage(2, positions=[1])


@pytest.mark.parametrize("reserve", [0, 16])
def test_positions_of_other_axes_are_refused_before_anything_changes(pool: PagePool, reserve: int) -> None:
    cache = pool.cache(SinkWindow(8) if reserve else None, reserve)
    for start in (0, 3, 6):
        push(cache, list(range(start, start + 3)), positions=np.arange(start, start + 3))
    fork, free = cache.fork(), pool.pages.free
    with pytest.raises(UsageError, match=r"shape \[6, 2\] were given and this stream stores"):
        cache.stage(6, positions=np.zeros((6, 2)))
    assert pool.pages.free == free
    pool.check()
    fork.close()
    cache.close()
    assert pool.pages.free == pool.pages.total


@pytest.mark.parametrize("shape", [(2, HEADS, DIM), (1, HEADS, DIM), (3, HEADS, DIM + 1)])
def test_keys_of_another_shape_are_refused_instead_of_broadcast(
    pool: PagePool, shape: tuple[int, ...]
) -> None:
    good, bad = torch.zeros(3, HEADS, DIM), torch.zeros(shape)
    with pool.cache().stage(3) as stage:
        layer = stage.layers()[0]
        with pytest.raises(UsageError, match="keys of shape"):
            layer.write(bad, good)
        with pytest.raises(UsageError, match="values of shape"):
            layer.write(good, bad)


def test_writing_keeps_no_gradient_history(pool: PagePool) -> None:
    with pool.cache().stage(1) as stage:
        given = torch.ones(1, HEADS, DIM, requires_grad=True)
        stage.layers()[0].write(given * 2, given * 3)
    assert not pool.k.requires_grad


def test_scattered_slots_are_written_in_order(pool: PagePool) -> None:
    blocker, cache = pool.cache(), pool.cache()
    push(cache, [0])
    push(blocker, [9])
    with cache.stage(5) as stage:
        assert stage.views[0].staged_run is None
        write(stage, [1, 2, 3, 4, 5])
        layer = stage.layers()[1]
        assert torch.equal(layer.v.index_select(0, layer.view.staged), rows([1, 2, 3, 4, 5], 1, values))


def read_back(cache: KVCache) -> list[float]:
    return cache.read(0)[0].float()[:, 0, 0].tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_every_dtype_can_be_written_copied_and_moved(dtype: torch.dtype) -> None:
    from streamgen.kv import Arena, Geometry

    pool = PagePool(Arena(), Geometry(1, 1, 2, 2, dtype), 16)
    cache, blocker = pool.cache(), pool.cache()
    token = torch.arange(1, 8, dtype=torch.float32).reshape(1, 7, 1, 1).expand(1, 7, 1, 2)
    cache.append(token[:, :1], token[:, :1])
    blocker.append(token[:, :1], token[:, :1])
    cache.append(token[:, 1:], token[:, 1:])
    other = cache.fork()
    other.append(token[:, :1], token[:, :1])
    other.evict([1, 3, 5, 7])
    assert read_back(cache) == [1, 2, 3, 4, 5, 6, 7]
    assert read_back(other) == [2, 4, 6, 1]
