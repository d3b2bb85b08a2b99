"""Windows at their edges."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.kv import Causal, KVCache, PagePool, SinkWindow
from tests.kv.model import Model, push, seen, stored


def test_a_rolling_buffer_sees_exactly_its_window_the_current_token_included(pool: PagePool) -> None:
    cache = pool.cache(SinkWindow(8))
    counts = []
    for token in range(20):
        stage = push(cache, [token], mask=Causal())
        counts.append(stage.past + stage.tokens)
        assert stage.mask == Causal()
    assert counts == [1, 2, 3, 4, 5, 6, 7] + [8] * 13


@pytest.mark.parametrize("chunk", [1, 4, 5, 7, 8, 9, 13, 20])
@pytest.mark.parametrize("sink", [0, 3])
def test_every_causal_query_sees_sink_and_window_for_any_chunk(pool: PagePool, chunk: int, sink: int) -> None:
    window = 8
    cache = pool.cache(SinkWindow(window, sink))
    for start in range(0, 40, chunk):
        numbers = list(range(start, start + chunk))
        stage = push(cache, numbers, mask=Causal())
        shown = [slot_token(cache, slot) for slot in stage.views[0].slots.tolist()]
        mask = stage.mask.dense(stage.past, chunk)
        rows = torch.ones(chunk, len(shown), dtype=torch.bool) if mask is None else mask
        for query, row in zip(numbers, rows.tolist(), strict=True):
            visible = [token for token, sees in zip(shown, row, strict=True) if sees]
            assert visible == [t for t in range(query + 1) if t < sink or t > query - window]
        last = start + chunk
        assert stored(cache)[0] == [t for t in range(last) if t < sink or t >= last - window]


def slot_token(cache: KVCache, slot: int) -> int:
    return round(cache.pool.flat[0][0][slot, 0, 0].item() / 8)


@pytest.mark.parametrize("first", [7, 8, 9, 10, 11, 12, 25])
@pytest.mark.parametrize("then", [1, 7, 8, 9, 25])
def test_a_full_chunk_sees_sink_and_window_together_at_the_edges(
    pool: PagePool, first: int, then: int
) -> None:
    cache = pool.cache(SinkWindow(8, 3))
    model = Model(8, 3)
    numbers = list(range(first + then))
    for chunk in (numbers[:first], numbers[first:]):
        visible = model.visible(len(chunk), ordered=False, replace=0)
        stage = cache.stage(len(chunk))
        assert seen(stage) == [visible]
        assert stage.past + stage.tokens <= max(11, 3 + len(chunk))
        stage.discard()
        push(cache, chunk)
        model.commit(visible, chunk)
        assert stored(cache) == [model.past]


def test_pages_that_leave_the_window_are_free_again(make_pool: Callable[..., PagePool]) -> None:
    pool = make_pool(pages=6)
    cache = pool.cache(SinkWindow(8, 2))
    for start in range(0, 400, 2):
        push(cache, [start, start + 1])
        pool.check()
        assert len(cache.tables[0].pages) <= 4
    assert pool.counters().evictions == 390


def test_a_retention_of_ones_own_chooses_for_each_table(make_pool: Callable[..., PagePool]) -> None:
    class Odd:
        def keep(self, cache: KVCache, incoming: int) -> list[np.ndarray]:
            return [np.arange(number % 2, table.tokens, 2) for number, table in enumerate(cache.tables)]

    cache = make_pool(layers_per_page=1).cache(Odd())
    push(cache, [0, 1, 2, 3])
    assert stored(cache) == [[0, 2], [1, 3]]
    assert cache.tokens == 2


@pytest.mark.parametrize("answer", [[[0, 1], [0]], [[1, 0]], [[0, 4]], [[-1]]])
def test_an_answer_that_makes_no_sense_is_refused(pool: PagePool, answer: list[list[int]]) -> None:
    class Wrong:
        def keep(self, cache: KVCache, incoming: int) -> list[list[int]] | None:
            return answer if cache.tokens else None

    cache = pool.cache(Wrong())
    with pytest.raises(UsageError):
        push(cache, [0, 1, 2, 3])


@pytest.mark.parametrize("fields", [{"window": 0}, {"window": 4, "sink": -1}])
def test_a_window_that_keeps_nothing_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least 1 token"):
        SinkWindow(**fields)
