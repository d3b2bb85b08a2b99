"""Small pools for the cache's tests."""

from collections.abc import Callable

import pytest

from streamgen.kv import Arena, Geometry, PagePool
from tests.kv.model import DIM, HEADS


@pytest.fixture
def make_pool() -> Callable[..., PagePool]:
    """Two layers of one head, pages of 4 tokens, one table unless said otherwise."""

    def make(pages: int = 32, page_size: int = 4, layers: int = 2, layers_per_page: int = 0) -> PagePool:
        geometry = Geometry(layers, HEADS, DIM, page_size, layers_per_page=layers_per_page)
        return PagePool(Arena(), geometry, pages, "small")

    return make


@pytest.fixture
def pool(make_pool: Callable[..., PagePool]) -> PagePool:
    return make_pool()
