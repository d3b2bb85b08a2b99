"""A stream in a file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from streamgen.errors import UsageError
from streamgen.kv import (
    Arena,
    CacheStateError,
    Geometry,
    KeepAll,
    KVCache,
    OutOfPagesError,
    PagePool,
    SinkWindow,
    SnapshotError,
    load,
    save,
)
from tests.kv.model import position, push, stored


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stream.safetensors"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_a_loaded_stream_has_the_same_bits(path: Path, dtype: torch.dtype) -> None:
    pool = PagePool(Arena(), Geometry(3, 2, 4, 4, dtype), 16)
    cache = pool.cache(SinkWindow(9, 2), rotated=False, name="world 7")
    k, v = torch.randn(2, 3, 11, 2, 4).to(dtype)
    cache.append(k, v)
    save(cache, path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    copy = load(PagePool(Arena(), Geometry(3, 2, 4, 16, dtype), 2), path)
    assert (copy.retention, copy.rotated, copy.name) == (SinkWindow(9, 2), False, "world 7")
    for layer in range(3):
        for saved, loaded in zip(cache.read(layer), copy.read(layer), strict=True):
            assert torch.equal(saved.view(torch.uint8), loaded.view(torch.uint8))


def test_a_loaded_ring_lies_in_its_stretch_as_before(pool: PagePool, path: Path) -> None:
    ring = pool.cache(SinkWindow(8, 3), reserve=11)
    for start in range(0, 20, 4):
        numbers = list(range(start, start + 4))
        push(ring, numbers, positions=[position(token) for token in numbers])
    save(ring, path)
    copy = load(pool, path)
    for cache in (ring, copy):
        push(cache, [20, 21], positions=[position(20), position(21)])
    assert stored(copy) == stored(ring)
    offsets = [cache.tables[0].slots - cache.tables[0].stretch.start for cache in (ring, copy)]
    assert offsets[0].tolist() == offsets[1].tolist()
    pool.check()


def test_tables_of_different_lengths_are_kept_apart(make_pool: Callable[..., PagePool], path: Path) -> None:
    pool = make_pool(layers=12, layers_per_page=1)
    cache = pool.cache()
    push(cache, list(range(6)))
    cache.evict([np.arange(number % 7) for number in range(12)])
    save(cache, path)
    copy = load(pool, path)
    assert stored(copy) == [list(range(number % 7)) for number in range(12)]
    assert copy.retention == KeepAll()
    push(copy, [9])


def test_a_pool_of_another_model_refuses_the_file(pool: PagePool, path: Path) -> None:
    save(pool.cache(), path)
    other = PagePool(Arena(), Geometry(3, 1, 2, 4), 4, "other")
    with pytest.raises(SnapshotError, match="other is made for"):
        load(other, path)


def test_a_stream_that_does_not_fit_is_refused(
    pool: PagePool, make_pool: Callable[..., PagePool], path: Path
) -> None:
    cache = pool.cache()
    push(cache, list(range(20)))
    save(cache, path)
    small = make_pool(pages=4)
    with pytest.raises(OutOfPagesError, match="Loading"):
        load(small, path)
    assert small.pages.free == 4
    assert not small.caches


def test_a_retention_of_ones_own_is_given_again(pool: PagePool, path: Path) -> None:
    class Mine:
        def keep(self, cache: KVCache, incoming: int) -> None:
            return None

    cache = pool.cache(Mine())
    push(cache, [0, 1])
    save(cache, path)
    with pytest.raises(UsageError, match="kept by Mine; give it again"):
        load(pool, path)
    mine = Mine()
    copy = load(pool, path, retention=mine)
    assert copy.retention is mine
    assert stored(copy) == [[0, 1]]


def test_what_is_no_snapshot_is_refused(pool: PagePool, path: Path) -> None:
    with pytest.raises(SnapshotError, match="no snapshot at"):
        load(pool, path)
    save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(SnapshotError, match="is not a snapshot"):
        load(pool, path)
    with pool.cache() as cache, cache.stage(1), pytest.raises(CacheStateError):
        save(cache, path)
