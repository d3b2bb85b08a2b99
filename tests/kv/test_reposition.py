"""Turning stored keys without ever losing a bit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv import (
    Arena,
    ArenaFullError,
    CacheStateError,
    Geometry,
    KVCache,
    PagePool,
    SinkWindow,
    load,
    save,
    swap_in,
    swap_out,
)


def rotate(k: Tensor, shift: float | Tensor) -> Tensor:
    """Rotary turn of pairs (x, y) by 0.7 radians a place, computed in float64."""
    angle = 0.7 * (shift[:, None] if isinstance(shift, Tensor) else torch.tensor(shift, dtype=torch.float64))
    x, y = k.double().chunk(2, dim=-1)
    angle = angle[..., None] if angle.ndim else angle
    return torch.cat([x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()], -1).to(k.dtype)


def make(dtype: torch.dtype = torch.bfloat16, budget: int | None = None, pages: int = 16) -> PagePool:
    return PagePool(Arena(budget), Geometry(2, 1, 4, 4, dtype), pages, "small")


def fill(cache: KVCache, count: int, positions: object = None, seed: int = 0) -> Tensor:
    """Append random tokens and return their keys [L, n, H, D] as they are stored."""
    generator = torch.Generator().manual_seed(seed)
    k = torch.randn(2, count, 1, 4, generator=generator).to(cache.pool.geometry.dtype)
    cache.append(k, (-k.float()).to(k.dtype), positions)
    return k


def keys(cache: KVCache, tokens: slice = slice(None)) -> Tensor:
    return torch.stack([cache.read(layer, tokens)[0] for layer in range(2)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_a_thousand_turns_equal_one(dtype: torch.dtype) -> None:
    cache = make(dtype).cache()
    k = fill(cache, 6)
    for _ in range(1000):
        cache.reposition(slice(2, 6), rotate, -1)
    once = torch.stack([rotate(layer, -1000.0) for layer in k[:, 2:]])
    assert torch.equal(keys(cache, slice(2, 6)).float(), once.float())
    assert torch.equal(keys(cache, slice(0, 2)).float(), k[:, :2].float())
    cache.reposition(slice(2, 6), rotate, 1000)
    assert torch.equal(keys(cache).float(), k.float())
    assert torch.equal(cache.read(0)[1].float(), -k[0].float())


def test_tokens_with_different_pasts_turn_by_their_own_sums() -> None:
    cache = make().cache()
    k = fill(cache, 8)
    cache.reposition(slice(0, 3), rotate, 2)
    cache.reposition(slice(2, 6), rotate, 5)
    cache.reposition([1, 3, 7], rotate, -1)
    totals = [2, 1, 7, 4, 5, 5, 0, -1]
    for token, total in enumerate(totals):
        expected = torch.stack([rotate(layer, float(total)) for layer in k[:, token : token + 1]])
        assert torch.equal(keys(cache, slice(token, token + 1)), expected)


def test_every_token_can_have_its_own_shift_and_positions_follow() -> None:
    cache = make().cache()
    k = fill(cache, 4, positions=[0, 3, 7, 8])
    cache.reposition(slice(1, 4), rotate, np.array([-2, -5, -5]))
    cache.reposition(slice(1, 4), rotate, np.array([4, 4, 4]))
    assert cache.positions.tolist() == [0, 5, 6, 7]
    shifts = torch.tensor([2.0, -1.0, -1.0], dtype=torch.float64)
    assert torch.equal(keys(cache, slice(1, 4)), torch.stack([rotate(layer, shifts) for layer in k[:, 1:]]))


def test_one_number_moves_time_and_an_array_moves_every_axis() -> None:
    cache = make().cache()
    fill(cache, 2, positions=[[4, 0, 0], [4, 0, 1]])
    cache.reposition(slice(None), lambda k, shift: k, -4)
    assert cache.positions.tolist() == [[0, 0, 0], [0, 0, 1]]
    other = make().cache()
    fill(other, 2, positions=[[4, 0, 0], [4, 0, 1]])
    other.reposition(slice(None), lambda k, shift: k, np.array([[-4, 1, 1], [-4, 1, 0]]))
    assert other.positions.tolist() == [[0, 1, 1], [0, 1, 1]]
    with pytest.raises(UsageError, match="along other axes"):
        other.reposition(slice(None), lambda k, shift: k, 1)


def test_positions_are_whole() -> None:
    cache = make().cache()
    fill(cache, 2, positions=[0, 1])
    with pytest.raises(UsageError, match="whole positions"):
        cache.reposition(slice(None), rotate, 0.5)
    without = make().cache()
    k = fill(without, 2)
    without.reposition(slice(None), rotate, 0.5)
    assert torch.equal(keys(without), torch.stack([rotate(layer, 0.5) for layer in k]))


def test_keys_that_are_stored_unrotated_only_change_their_positions() -> None:
    cache = make().cache(rotated=False)
    k = fill(cache, 3, positions=[5, 6, 7])
    cache.reposition(slice(1, 3), rotate, -5)
    assert cache.positions.tolist() == [5, 1, 2]
    assert torch.equal(keys(cache), k)
    bare = make().cache(rotated=False)
    fill(bare, 1)
    with pytest.raises(UsageError, match="nothing to move"):
        bare.reposition(slice(None), rotate, 1)


def test_a_fork_keeps_its_keys_where_they_were_and_shares_the_home_copies() -> None:
    cache = make().cache()
    k = fill(cache, 6)
    cache.reposition(slice(None), rotate, 3)
    fork = cache.fork()
    turned, home = keys(cache), cache.pool.counters().bytes_home
    copies = cache.pool.counters().copies
    fork.reposition(slice(4, 6), rotate, -3)
    assert cache.pool.counters().copies == copies + 1
    assert cache.pool.counters().bytes_home == home == k.nbytes
    assert torch.equal(keys(cache), turned)
    assert torch.equal(keys(fork, slice(4, 6)), k[:, 4:])
    cache.pool.check()


def test_a_ring_turns_its_keys_in_place_while_a_fork_keeps_the_old_ones() -> None:
    cache = make().cache(SinkWindow(8), reserve=8)
    k = fill(cache, 8)
    fork = cache.fork()
    cache.reposition(slice(None), rotate, 2)
    assert torch.equal(keys(fork), k)
    with cache.stage(1) as stage:
        assert len(stage.views[0].runs) == 1
    cache.pool.check()
    reader = cache.fork()
    with reader.stage(1), pytest.raises(CacheStateError, match="is reading"):
        cache.reposition(slice(None), rotate, 1)


def test_home_copies_live_as_long_as_their_tokens() -> None:
    pool = make()
    cache = pool.cache()
    k = fill(cache, 8)
    pages = pool.arena.held
    cache.reposition(slice(0, 4), rotate, 1)
    cache.reposition(slice(4, 8), rotate, 1)
    assert pool.arena.held - pages == k.nbytes
    assert ("home keys of small", k.nbytes) in pool.arena.report()
    cache.evict([4, 5])
    assert pool.arena.held - pages == k.nbytes // 2
    fill(cache, 3, seed=1)
    cache.reposition(slice(None), rotate, 1)
    expected = torch.stack([rotate(layer, 2.0) for layer in k[:, 4:6]])
    assert torch.equal(keys(cache, slice(0, 2)), expected)
    cache.close()
    assert pool.arena.held == pages


def test_tokens_without_a_home_need_no_books() -> None:
    cache = make().cache()
    k = fill(cache, 6)
    cache.reposition(slice(0, 2), rotate, 1)
    cache.evict([2, 3, 4, 5])
    assert cache.tables[0].entries.origins is None
    assert torch.equal(keys(cache), k[:, 2:])


def test_a_turn_without_room_changes_nothing() -> None:
    pool = make(budget=16 * 2 * 2 * 4 * 4 * 2 + 40, pages=16)
    cache = pool.cache()
    k = fill(cache, 8)
    with pytest.raises(ArenaFullError, match="home keys"):
        cache.reposition(slice(None), rotate, 1)
    assert torch.equal(keys(cache), k)
    cache.reposition(slice(0, 2), rotate, 1)
    cache.reposition([], rotate, 1)


def test_tables_turn_on_their_own(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(layers_per_page=1)
    cache = pool.cache()
    k = torch.randn(2, 3, 1, 2)
    cache.append(k, k)
    cache.reposition(slice(None), rotate, 1, tables=[1])
    assert torch.equal(cache.read(0)[0], k[0])
    assert torch.equal(cache.read(1)[0], rotate(k[1], 1.0))


def test_home_copies_survive_a_swap_and_a_snapshot(tmp_path: Path) -> None:
    pool = make()
    cache = pool.cache()
    k = fill(cache, 6, positions=list(range(6)))
    cache.reposition(slice(1, 5), rotate, 3)
    fork = cache.fork()
    held = pool.arena.held
    swapped = swap_out([cache, fork])
    assert pool.arena.held == held - k[:, :4].nbytes
    swap_in(swapped)
    assert pool.arena.held == held
    save(cache, tmp_path / "stream.safetensors")
    copy = load(pool, tmp_path / "stream.safetensors")
    assert torch.equal(keys(copy), keys(cache))
    for stream in (cache, fork, copy):
        stream.reposition(slice(1, 5), rotate, -3)
        assert torch.equal(keys(stream), k)
        assert stream.positions.tolist() == list(range(6))
