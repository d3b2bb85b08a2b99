"""What is known about stored tokens, whether they lie in one stretch or not."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from streamgen.kv import Causal, Geometry, PagePool, swap_in, swap_out
from streamgen.kv.pool import empty_pages
from streamgen.kv.table import Tokens, array_of, stretch_of
from tests.kv.model import push

STRETCHES = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda pair: range(pair[0], sum(pair)))


def both(places: range) -> tuple[Tokens, Tokens]:
    """The same tokens as a stretch, and as any slots."""
    positions = np.arange(len(places)) * 10
    return Tokens(places, positions), Tokens(array_of(places), positions)


def same(one: Tokens, two: Tokens) -> None:
    assert one.slots.tolist() == two.slots.tolist()
    assert len(one) == len(two) == len(one.slots)
    assert (one.positions is None) == (two.positions is None)
    if one.positions is not None and two.positions is not None:
        assert one.positions.tolist() == two.positions.tolist()


@given(STRETCHES, STRETCHES, st.data())
def test_a_stretch_answers_like_any_slots(places: range, others: range, data: st.DataObject) -> None:
    stretch, slots = both(places)
    start, stop = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))
    assert list(stretch.within(start, stop)) == list(slots.within(start, stop))
    kept = data.draw(st.lists(st.sampled_from(range(len(places))), unique=True) if places else st.just([]))
    index = np.array(sorted(kept), dtype=np.int64)
    same(stretch.take(index), slots.take(index))
    same(stretch.take(range(len(kept))), slots.take(np.arange(len(kept))))
    other, other_slots = both(others)
    same(stretch.join(other), slots.join(other_slots))
    same(stretch.moved(3, 7, 4), slots.moved(3, 7, 4))


@pytest.mark.parametrize(
    ("slots", "found"),
    [([], None), ([5], range(5, 6)), ([5, 6, 7], range(5, 8)), ([5, 7, 6, 8], None), ([7, 6, 5], None)],
)
def test_only_one_rising_stretch_is_one(slots: list[int], found: range | None) -> None:
    places = stretch_of(np.array(slots, dtype=np.int64))
    assert places == found if isinstance(places, range) else found is None and places.tolist() == slots


def test_a_stream_that_grows_alone_never_lists_its_past(
    pool: PagePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []

    def spy(places: range) -> np.ndarray:
        listed.append(len(places))
        return array_of(places)

    for module in ("table", "draft", "plan"):
        monkeypatch.setattr(f"streamgen.kv.{module}.array_of", spy)
    cache = pool.cache()
    for number in range(60):
        [view] = push(cache, [number], mask=Causal()).views
        assert view.runs == ((0, number + 1),) and view.staged_run == (number, number + 1)
    assert max(listed, default=0) <= 1, "a fresh page lists the one new token, nothing lists the others"
    cache.rewind(7)
    assert cache.tables[0].entries.places == range(53)


def test_what_lies_in_one_stretch_again_is_known_as_one(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool()
    cache = pool.cache()
    push(cache, list(range(9)))
    swap_in(swap_out([cache]))
    assert isinstance(cache.tables[0].entries.places, range)
    cache.evict([0, 1, 2, 3, 6, 7, 8])
    assert isinstance(cache.tables[0].entries.places, range)
    fork = cache.fork()
    push(fork, [9])
    assert not isinstance(fork.tables[0].entries.places, range), "its last page is a copy elsewhere"
    assert isinstance(cache.tables[0].entries.places, range)


def test_a_range_with_steps_is_no_stretch() -> None:
    with pytest.raises(AssertionError, match="is not one stretch"):
        Tokens(range(10, 20)).take(range(0, 10, 2))


def test_a_head_of_a_cpu_pool_is_one_stretch_of_memory() -> None:
    k = empty_pages(Geometry(2, 3, 8, page_size=4), 5, "cpu")
    assert k.shape == (2, 5, 4, 3, 8)
    assert all(k[layer, :, :, head].is_contiguous() for layer in range(2) for head in range(3))


def test_a_page_elsewhere_is_one_block_of_memory() -> None:
    k = empty_pages(Geometry(2, 3, 8, page_size=4, dtype=torch.bfloat16), 5, "meta")
    assert k.shape == (2, 5, 4, 3, 8) and k.is_contiguous() and k.dtype == torch.bfloat16
