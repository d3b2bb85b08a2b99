"""One budget of bytes for every pool of a device."""

import pytest
import torch

from streamgen.errors import OutOfMemoryError, UsageError
from streamgen.kv import Arena, ArenaFullError, Geometry, PagePool
from streamgen.kv.arena import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"), [(7, 7), ("0", 0), ("512 MB", 512 * 10**6), ("4GiB", 4 * 2**30), ("1.5kib", 1536)]
)
def test_sizes_read_as_people_write_them(text: int | str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["lots", "4 gigs", "-3", -1])
def test_what_is_no_size_is_refused(text: int | str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


def test_sizes_print_in_binary_units() -> None:
    assert [format_bytes(size) for size in (5, 1536, 3 * 2**30, 2**41)] == [
        "5 B",
        "1.5 KiB",
        "3 GiB",
        "2 TiB",
    ]


def test_a_lease_gives_its_bytes_back_once() -> None:
    arena = Arena("1KiB")
    lease = arena.reserve(1000, "a")
    assert (arena.held, arena.free) == (1000, 24)
    lease.free()
    lease.free()
    assert (arena.held, arena.free) == (0, 1024)


def test_without_a_budget_bytes_are_counted_but_not_limited() -> None:
    arena = Arena()
    arena.reserve(10**15, "a")
    assert arena.free is None
    assert arena.held == 10**15


def test_a_negative_reservation_is_refused() -> None:
    with pytest.raises(UsageError, match="-1 bytes"):
        Arena().reserve(-1, "a")


def test_a_refusal_says_what_was_asked_what_is_free_and_who_holds_the_rest() -> None:
    arena = Arena(1000)
    arena.reserve(300, "video")
    arena.reserve(400, "text")
    with pytest.raises(ArenaFullError) as refusal:
        arena.reserve(301, "image")
    sentence = str(refusal.value)
    assert "image asked for 301 bytes and 300 bytes of 1000 bytes are free" in sentence
    assert "video (300 bytes), text (400 bytes)" in sentence
    assert arena.report() == [("video", 300), ("text", 400)]


def test_pools_of_different_shapes_share_one_budget() -> None:
    arena = Arena("64KiB")
    small = Geometry(2, 1, 4, 4)
    large = Geometry(4, 2, 8, 16, torch.bfloat16, layers_per_page=2)
    one = PagePool(arena, small, 16, "one")
    two = PagePool(arena, large, 8, "two")
    assert arena.held == 16 * small.page_bytes + 8 * large.page_bytes
    assert one.k.nbytes + one.v.nbytes + two.k.nbytes + two.v.nbytes == arena.held
    two.close()
    assert arena.report() == [("one", 16 * small.page_bytes)]


def test_a_pool_that_does_not_fit_is_refused_before_anything_is_allocated() -> None:
    arena = Arena(1000)
    with pytest.raises(OutOfMemoryError, match="held by: nobody"):
        PagePool(arena, Geometry(2, 1, 4, 4), 10**9, "huge")
    assert arena.held == 0


def test_a_failed_allocation_gives_its_lease_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("out of memory")

    arena = Arena(10**6)
    monkeypatch.setattr(torch, "zeros", fail)
    with pytest.raises(RuntimeError):
        PagePool(arena, Geometry(2, 1, 4, 4), 4, "pool")
    assert arena.held == 0


@pytest.mark.parametrize("broken", [{"layers": 0}, {"page_size": 0}, {"layers_per_page": 2}])
def test_a_geometry_that_cannot_be_is_refused(broken: dict[str, int]) -> None:
    fields = {"layers": 3, "kv_heads": 1, "head_dim": 4, "page_size": 4} | broken
    with pytest.raises(UsageError):
        Geometry(**fields)


def test_a_geometry_counts_pages_for_every_table() -> None:
    assert Geometry(6, 1, 4, 16, layers_per_page=2).pages(33) == 9
