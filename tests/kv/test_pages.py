"""Free pages and holders."""

from collections import UserList

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgen.kv import OutOfPagesError
from streamgen.kv.pages import Pages


class Somebody:
    def __init__(self) -> None:
        self.pages: list[int] = []


class CountingList(UserList):
    touched = 0

    def __getitem__(self, index):
        CountingList.touched += 1
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        CountingList.touched += 1
        super().__setitem__(index, value)


def touches(total: int) -> list[int]:
    """List accesses of one take, one revival from the middle, and one release in a pool of `total` pages."""
    pages = Pages(total)
    for name in ("_next", "_previous", "_holders"):
        setattr(pages, name, CountingList(getattr(pages, name)))
    one, two = Somebody(), Somebody()
    taken = pages.take(total // 2, one)
    for page in taken:
        pages.mark(page, lambda: None)
    pages.release(taken, one)
    counts = []
    for act in (
        lambda: pages.hold(taken[total // 4], two),
        lambda: pages.release([taken[total // 4]], two),
        lambda: pages.take(1, two),
    ):
        CountingList.touched = 0
        act()
        counts.append(CountingList.touched)
    return counts


def test_taking_reviving_and_releasing_cost_the_same_in_any_pool() -> None:
    assert touches(16) == touches(4096)


def test_what_was_released_last_is_taken_first_and_in_order() -> None:
    pages, one = Pages(8), Somebody()
    taken = pages.take(4, one)
    pages.release(taken[1:3], one)
    assert pages.take(3, one) == [1, 2, 4]


def test_marked_pages_are_taken_last_and_the_end_of_a_chain_before_its_beginning() -> None:
    pages, one = Pages(6), Somebody()
    chain = pages.take(3, one)
    forgotten: list[int] = []
    for page in chain:
        pages.mark(page, lambda page=page: forgotten.append(page))
    pages.release(chain, one)
    assert pages.take(4, one) == [3, 4, 5, 2]
    assert forgotten == [2]


def test_a_marked_page_comes_back_to_life() -> None:
    pages, one, two = Pages(2), Somebody(), Somebody()
    [page] = pages.take(1, one)
    pages.mark(page, lambda: None)
    pages.release([page], one)
    assert pages.free == 2
    pages.hold(page, two)
    assert (pages.free, pages.refs(page), pages.writable(page)) == (1, 1, False)


def test_too_many_pages_are_refused_with_the_numbers() -> None:
    with pytest.raises(OutOfPagesError, match="needs 3 pages and 2 of the 2 pages of small are free"):
        Pages(2, "small").take(3, Somebody())


def test_a_stretch_needs_neighbours() -> None:
    pages, one = Pages(6), Somebody()
    pages.take(6, one)
    pages.release([0, 2, 3, 5], one)
    assert pages.take_stretch(2, one) == [2, 3]
    with pytest.raises(OutOfPagesError, match="scattered"):
        pages.take_stretch(2, one)
    assert pages.take_stretch(0, one) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_the_free_list_and_the_count_never_part(steps: list[tuple[bool, int]]) -> None:
    pages, one = Pages(10), Somebody()
    for taking, count in steps:
        if taking and count <= pages.free:
            one.pages += pages.take(count, one)
        elif not taking:
            gone, one.pages = one.pages[:count], one.pages[count:]
            pages.release(gone, one)
        assert sorted(pages.free_pages() + one.pages) == list(range(10))
        assert len(pages.free_pages()) == pages.free


def test_what_will_be_read_together_is_taken_together_unless_somebody_vouches_for_the_neighbour() -> None:
    pages, one, other = Pages(8), Somebody(), Somebody()
    taken = pages.take(8, one)
    pages.mark(5, lambda: None)
    pages.release([taken[7]], one)
    pages.release([taken[3], taken[4], taken[5]], one)
    assert pages.take(1, other, behind=6) == [7]
    assert pages.take(2, other, behind=2) == [3, 4]
    assert pages.take(1, other, behind=4) == [5]
