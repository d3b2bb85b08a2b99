"""Letting go of different tokens in each table: what stays, where it stands, and what is made of the rest."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv import Arena, Geometry, KVCache, OutOfPagesError, PagePool
from streamgen.kv.forget import forget, renumbered, turn

LAYERS, HEADS, DIM, PAGE = 3, 1, 4, 4


def make(pages: int = 64, dtype: torch.dtype = torch.float64) -> PagePool:
    return PagePool(Arena(), Geometry(LAYERS, HEADS, DIM, PAGE, dtype, layers_per_page=1), pages)


def rotate(keys: Tensor, shift: Tensor) -> Tensor:
    """A turn that tells places apart and adds up: two planes, at two speeds."""
    low, high = keys.to(torch.float64).chunk(2, dim=-1)
    speed = torch.tensor([1.0, 0.1], dtype=torch.float64)
    if shift.ndim == 2:
        angle = (shift.to(torch.float64)[:, :2] * speed)[:, None]
    else:
        angle = (shift.to(torch.float64)[:, None] * speed)[:, None]
    turned = torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], -1)
    return turned.to(keys.dtype)


def fill(cache: KVCache, count: int, start: int = 0, axes: int = 0) -> None:
    """Tokens with random keys, turned to their positions."""
    generator = torch.Generator().manual_seed(count + 100 * start)
    raw = torch.randn(LAYERS, count, HEADS, DIM, generator=generator, dtype=torch.float64)
    values = torch.randn(LAYERS, count, HEADS, DIM, generator=generator, dtype=torch.float64)
    places = np.arange(start, start + count)
    if axes:
        places = np.stack([places, places // 2, places // 3], axis=1)
    keys = torch.stack([rotate(one, torch.from_numpy(places)) for one in raw])
    cache.append(keys.to(cache.pool.geometry.dtype), values.to(cache.pool.geometry.dtype), positions=places)


def raw_keys(cache: KVCache, layer: int) -> Tensor:
    """The keys as they were before any turn."""
    k, _ = cache.read(layer)
    positions = cache.tables[layer].positions
    assert positions is not None
    return rotate(k.double(), torch.from_numpy(-positions))


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(3, 30),
    pinned=st.integers(0, 2),
    axes=st.sampled_from([0, 3]),
    renumber=st.booleans(),
    shared=st.booleans(),
    data=st.data(),
)
def test_what_stays_is_the_same_wherever_it_stands_now(
    count: int, pinned: int, axes: int, renumber: bool, shared: bool, data: st.DataObject
) -> None:
    with make() as pool:
        cache = pool.cache()
        fill(cache, count, axes=axes)
        before = [(raw_keys(cache, layer), cache.read(layer)[1]) for layer in range(LAYERS)]
        fork = cache.fork() if shared else None
        untouched = [cache.read(layer)[0] for layer in range(LAYERS)]
        sets = st.sets(st.integers(pinned, count - 1))
        keep = [np.array(sorted({*range(pinned), *data.draw(sets)}), dtype=np.int64) for _ in range(LAYERS)]
        kept = forget(cache, keep, rotate, pinned, summarize=[2], renumber=renumber)
        pool.check()
        assert kept.summaries == ((2,) if len(keep[2]) < count else ())
        for layer in range(LAYERS):
            added = int(layer in kept.summaries)
            assert kept.after[layer] == len(keep[layer]) + added == cache.tables[layer].tokens
            keys, values = raw_keys(cache, layer), cache.read(layer)[1]
            torch.testing.assert_close(keys[: len(keep[layer])], before[layer][0][keep[layer]])
            torch.testing.assert_close(values[: len(keep[layer])], before[layer][1][keep[layer]])
            if added:
                gone = np.setdiff1d(np.arange(count), keep[layer])
                assert_summary(cache, layer, before[layer][0][gone], before[layer][1][gone])
        if fork is not None:
            for layer in range(LAYERS):
                assert torch.equal(fork.read(layer)[0], untouched[layer])


def assert_summary(cache: KVCache, layer: int, keys: Tensor, values: Tensor) -> None:
    """The newest token is the mean of what went, all turned to its place, behind every other on all axes."""
    k, v = cache.read(layer, [-1 % cache.tables[layer].tokens])
    positions = cache.tables[layer].positions
    assert positions is not None
    place = np.broadcast_to(positions[-1:], (len(keys), *positions.shape[1:])).copy()
    assert (positions[-1] == (positions[:-1].max() + 1 if len(positions) > 1 else 0)).all()
    torch.testing.assert_close(k, rotate(keys, torch.from_numpy(place)).mean(0, keepdim=True))
    torch.testing.assert_close(v, values.mean(0, keepdim=True))


def test_new_positions_are_ranks_behind_the_pinned_ones() -> None:
    assert renumbered(np.array([0, 1, 7, 9, 30]), 2).tolist() == [0, 1, 2, 3, 4]
    grid = np.array([[0, 0, 0], [4, 4, 4], [4, 4, 6], [12, 5, 4], [13, 13, 13]])
    assert renumbered(grid, 1).tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 2], [2, 2, 1], [3, 3, 3]]


def test_tables_that_got_no_summary_keep_their_positions() -> None:
    with make() as pool:
        cache = pool.cache()
        fill(cache, 6)
        cache.append(torch.zeros(1, 1, HEADS, DIM), torch.zeros(1, 1, HEADS, DIM), [np.array([9])], [0])
        assert [table.positions is not None for table in cache.tables] == [True] * LAYERS


def test_too_few_pages_change_nothing() -> None:
    with make(pages=9) as pool:
        cache = pool.cache()
        fill(cache, 12)
        fork = cache.fork()
        before = [cache.read(layer)[0] for layer in range(LAYERS)]
        keep = [np.arange(1, 12)] * LAYERS
        with pytest.raises(OutOfPagesError, match="close its forks"):
            forget(cache, keep, rotate, summarize=[2])
        assert [table.tokens for table in cache.tables] == [12] * LAYERS
        assert all(torch.equal(cache.read(layer)[0], before[layer]) for layer in range(LAYERS))
        fork.close()
        forget(cache, keep, rotate, summarize=[2])
        pool.check()


def test_an_eviction_needs_no_page_beside_the_stream() -> None:
    with make(pages=9) as pool:
        cache = pool.cache()
        for start in range(0, 40, 8):
            fill(cache, 8 if start else 12, start)
            keep = [np.arange(cache.tables[layer].tokens)[-4:] for layer in range(2)]
            forget(cache, [*keep, keep[0][1:]], rotate, summarize=[2], renumber=True)
            assert [table.tokens for table in cache.tables] == [4] * LAYERS
            pool.check()


@pytest.mark.parametrize(("dtype", "error"), [(torch.bfloat16, 0.05), (torch.float32, 1e-5)])
def test_a_hundred_turns_in_place_leave_the_key(dtype: torch.dtype, error: float) -> None:
    with make(dtype=dtype) as pool:
        cache = pool.cache()
        fill(cache, 8)
        first = raw_keys(cache, 0)
        for number in range(100):
            jump = np.array([3 if number % 2 == 0 else -3] * 8)
            for table in cache.tables:
                assert table.positions is not None
                turn(cache.pool, table, table.positions + jump, rotate)
        off = (raw_keys(cache, 0) - first).norm() / first.norm()
        assert float(off) < error


def test_streams_that_cannot_forget_are_refused() -> None:
    with make() as pool:
        plain = pool.cache()
        plain.append(torch.zeros(LAYERS, 2, HEADS, DIM), torch.zeros(LAYERS, 2, HEADS, DIM))
        ring = pool.cache(reserve=8)
        fill(ring, 4)
        for cache, why in ((plain, "no positions"), (ring, "reserve")):
            with pytest.raises(UsageError, match=why):
                forget(cache, [np.arange(1)] * LAYERS, rotate)
