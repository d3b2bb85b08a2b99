"""Marks: a bounded stream goes back, or moves to another pool, token for token in the same places."""

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.kv.cache import KVCache
from streamgen.kv.geometry import Geometry
from streamgen.kv.pool import PagePool
from streamgen.kv.retention import SinkWindow
from streamgen.kv.ring import lay, mark, places

GEOMETRY = Geometry(layers=2, kv_heads=1, head_dim=4, page_size=4)


def pool(arena: Arena | None = None) -> PagePool:
    return PagePool(arena or Arena(), GEOMETRY, pages=12)


def ring(home: PagePool) -> KVCache:
    return home.cache(SinkWindow(window=8, sink=2), reserve=10)


def grow(cache: KVCache, first: int, count: int) -> None:
    """Tokens whose keys say their number."""
    for number in range(first, first + count):
        keys = torch.full((2, 1, 1, 4), float(number))
        cache.append(keys, -keys)


def numbers(cache: KVCache) -> list[float]:
    return cache.read(1)[0][:, 0, 0].tolist()


def test_a_ring_goes_back_to_a_mark_and_goes_on_in_the_same_slots() -> None:
    home = pool()
    cache, other = ring(home), ring(pool())
    grow(cache, 0, 14)
    grow(other, 0, 16)
    moment = mark(cache)
    grow(cache, 100, 5)
    lay(cache, moment.cache, moment.places)
    moment.close()
    grow(cache, 14, 2)
    assert numbers(cache) == numbers(other)
    assert all(np.array_equal(a, b) for a, b in zip(places(cache), places(other), strict=True))
    home.check()


def test_a_ring_moves_to_another_budget_with_its_pristine_keys() -> None:
    arena = Arena()
    cache = ring(pool())
    grow(cache, 0, 14)
    cache.reposition(slice(0, 2), lambda k, shift: k + shift, 3)
    target = ring(pool(arena))
    before = arena.held
    lay(target, cache, places(cache))
    assert numbers(target) == numbers(cache) and arena.held > before
    for stream in (cache, target):
        stream.reposition(slice(0, 2), lambda k, shift: k + shift, 1)
    assert numbers(target) == numbers(cache) and numbers(target)[:2] == [4.0, 5.0]


def test_a_stream_without_a_stretch_has_no_places() -> None:
    with pytest.raises(UsageError, match="only a reserved stream has places"):
        places(pool().cache())
