"""Forks share pages until they diverge."""

from collections.abc import Callable

import pytest
import torch

from streamgen.errors import UsageError
from streamgen.kv import OutOfPagesError, PagePool
from tests.kv.model import DIM, HEADS, push, rows, stored, values


def test_a_fork_copies_nothing_until_it_writes_and_then_one_page(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, list(range(14)))
    before = pool.counters()
    fork = cache.fork()
    assert (pool.counters().copies, pool.counters().free, pool.counters().shared) == (0, before.free, 4)
    push(fork, list(range(100, 109)))
    after = pool.counters()
    assert (after.copies, before.free - after.free, after.shared) == (1, 3, 3)
    assert stored(cache) == [list(range(14))]
    assert stored(fork) == [[*range(14), *range(100, 109)]]


def test_the_last_holder_writes_in_place(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0, 1])
    fork = cache.fork()
    push(cache, [2])
    push(fork, [3])
    assert pool.counters().copies == 1
    assert (stored(cache), stored(fork)) == ([[0, 1, 2]], [[0, 1, 3]])


def test_a_full_last_page_is_never_copied(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0, 1, 2, 3])
    fork = cache.fork()
    push(fork, [4])
    assert pool.counters().copies == 0


def test_many_forks_of_one_prompt_share_it(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=64)
    prompt = pool.cache()
    push(prompt, list(range(101)))
    samples = [prompt.fork() for _ in range(8)]
    for number, sample in enumerate(samples):
        push(sample, [200 + number])
    assert pool.counters().used == 26 + 8
    prompt.close()
    for number, sample in enumerate(samples):
        assert stored(sample) == [[*range(101), 200 + number]]
        sample.close()
    assert pool.pages.free == 64


def test_a_copy_that_finds_no_page_changes_nothing(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=2)
    cache = pool.cache()
    push(cache, [0, 1, 2, 3, 4])
    fork = cache.fork()
    with pytest.raises(OutOfPagesError):
        fork.stage(1)
    assert stored(cache) == stored(fork) == [[0, 1, 2, 3, 4]]
    cache.close()
    push(fork, [5])
    assert stored(fork) == [[0, 1, 2, 3, 4, 5]]


def test_a_rewind_forgets_the_last_tokens_and_frees_their_pages(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, list(range(10)))
    fork = cache.fork()
    cache.rewind(0)
    assert cache.tokens == 10
    cache.rewind(5)
    assert stored(cache) == [[0, 1, 2, 3, 4]]
    push(cache, [90])
    assert (stored(cache), stored(fork)) == ([[0, 1, 2, 3, 4, 90]], [list(range(10))])
    for wrong in (7, -1):
        with pytest.raises(UsageError, match="cannot be rewound"):
            cache.rewind(wrong)
    cache.rewind(6)
    assert (cache.tokens, cache.tables[0].pages) == (0, [])


def test_a_rewound_stream_overwrites_its_own_page_without_a_copy(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0, 1, 2])
    cache.rewind(2)
    push(cache, [5])
    assert pool.counters().copies == 0
    assert stored(cache) == [[0, 5]]


def test_reading_gathers_what_was_asked_for_in_that_order(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, list(range(10)))
    for tokens, expected in (([7, 0, 3], [7, 0, 3]), (slice(-2, None), [8, 9]), (torch.tensor([1]), [1])):
        k, v = cache.read(1, tokens)
        assert torch.equal(k, rows(expected, 1))
        assert torch.equal(v, rows(expected, 1, values))
    with pytest.raises(UsageError, match="the table holds 10"):
        cache.read(0, [10])


def test_appending_is_stage_write_and_commit(pool: PagePool) -> None:
    cache = pool.cache()
    push(cache, [0])
    numbers = [1, 2, 3, 4, 5]
    k = torch.stack([rows(numbers, layer) for layer in range(2)])
    v = torch.stack([rows(numbers, layer, values) for layer in range(2)])
    cache.append(k, v)
    assert stored(cache) == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(UsageError, match="have 2 layers"):
        cache.append(k[:1], v[:1])
    assert cache.opened is None


def test_some_tables_can_be_given_a_token_of_their_own(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(layers=3, layers_per_page=1)
    cache = pool.cache()
    push(cache, [0, 1, 2])
    cache.evict([[0, 1, 2], [2], [0, 2]])
    summary = torch.stack([rows([9], layer) for layer in (2, 1)])
    back = torch.stack([rows([9], layer, values) for layer in (2, 1)])
    cache.append(summary, back, tables=[2, 1])
    assert stored(cache) == [[0, 1, 2], [2, 9], [0, 2, 9]]
    assert summary.shape == (2, 1, HEADS, DIM)
    pool.check()


def test_an_error_while_appending_leaves_no_trace(pool: PagePool) -> None:
    cache = pool.cache()
    good, bad = torch.zeros(2, 3, HEADS, DIM), torch.zeros(2, 3, HEADS, DIM + 1)
    with pytest.raises(UsageError):
        cache.append(good, bad)
    assert (cache.tokens, pool.pages.free) == (0, pool.pages.total)
