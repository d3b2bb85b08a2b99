"""What kernels are shown."""

import numpy as np
import pytest

from streamgen.kv import Causal, PagePool, SinkWindow
from streamgen.kv.view import slot_runs
from tests.kv.model import push


@pytest.mark.parametrize(
    ("slots", "runs"),
    [([], ()), ([4], ((4, 5),)), ([4, 5, 9], ((4, 6), (9, 10))), ([3, 2, 1], ((3, 4), (2, 3), (1, 2)))],
)
def test_neighbouring_slots_make_one_run(slots: list[int], runs: tuple[tuple[int, int], ...]) -> None:
    assert slot_runs(np.array(slots, dtype=np.int64)) == runs


def test_a_growing_stream_shows_its_pages_in_order(pool: PagePool) -> None:
    cache, other = pool.cache(), pool.cache()
    push(cache, [0, 1, 2])
    push(other, [0])
    [view] = push(cache, [3, 4, 5], mask=Causal()).views
    assert view.pages.tolist() == [0, 2]
    assert view.slots.tolist() == [0, 1, 2, 3, 8, 9]
    assert view.staged.tolist() == [3, 8, 9]
    assert view.runs == ((0, 4), (8, 10))
    assert (view.past, view.tokens, view.page_size, view.staged_run) == (3, 3, 4, None)


def test_a_window_that_is_not_made_of_full_pages_shows_no_pages(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(5))
    push(cache, list(range(5)))
    assert push(cache, [5]).views[0].pages is None
    assert push(cache, [6]).views[0].positions is None


def test_layers_of_one_table_share_a_view_and_write_into_the_pool(pool: PagePool) -> None:
    with pool.cache().stage(2) as stage:
        one, two = stage.layers()
        assert one.view is two.view is stage.views[0]
        assert one.k.data_ptr() == pool.k[0].data_ptr()
        assert two.v.data_ptr() == pool.v[1].data_ptr()
        assert one.k.shape == (32 * 4, 1, 2)
