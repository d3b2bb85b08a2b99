"""Any sequence of calls leaves the pool's books right and every stream equal to the plain-Python model."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamgen.errors import OutOfMemoryError
from streamgen.kv import (
    Arena,
    CacheStateError,
    Causal,
    Full,
    Geometry,
    KeepAll,
    KVCache,
    PagePool,
    SinkWindow,
    Stage,
    Swapped,
    swap_in,
    swap_out,
)
from tests.kv.model import DIM, HEADS, Model, model_of, poison, position, seen, stored, write

LAYERS = 2


class Stream:
    """A cache beside its model."""

    def __init__(self, cache: KVCache, model: Model) -> None:
        self.cache = cache
        self.model = model
        self.stage: Stage | None = None
        self.visible: list[int] = []
        self.tokens: list[int] = []


class Machine(RuleBasedStateMachine):
    retention: object = KeepAll()
    reserve = 0
    layers_per_page = LAYERS

    @initialize(pages=st.integers(6, 24), page_size=st.sampled_from([2, 3, 4]))
    def build(self, pages: int, page_size: int) -> None:
        geometry = Geometry(LAYERS, HEADS, DIM, page_size, layers_per_page=self.layers_per_page)
        self.pool = PagePool(Arena(), geometry, pages, "small")
        self.streams: list[Stream] = []
        self.away: list[tuple[Swapped, list[Stream]]] = []
        self.token = 0
        self.open()

    def fresh(self, count: int) -> list[int]:
        self.token += count
        return list(range(self.token - count, self.token))

    def pick(self, data: st.DataObject, staged: bool) -> Stream:
        return data.draw(st.sampled_from(self.staged() if staged else self.idle()))

    def idle(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.stage is None]

    def staged(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.stage is not None]

    def books(self) -> object:
        tables = [table for stream in self.streams for table in stream.cache.tables]
        return (
            self.pool.pages.free,
            [sorted(map(id, self.pool.pages.holders(page))) for page in range(self.pool.pages.total)],
            [(list(table.pages), table.slots.tolist(), table.draft) for table in tables],
            [self.contents(stream) for stream in self.streams],
        )

    def contents(self, stream: Stream) -> list[list[int]]:
        return stored(stream.cache) if stream.stage is None else seen(stream.stage)

    @contextmanager
    def all_or_nothing(self):
        """A refused call has changed nothing."""
        before = self.books()
        try:
            yield
        except (OutOfMemoryError, CacheStateError):
            assert self.books() == before

    @precondition(lambda self: len(self.streams) < 2)
    @rule()
    def open(self) -> None:
        with self.all_or_nothing():
            cache = self.pool.cache(self.retention, self.reserve)
            self.streams.append(Stream(cache, model_of(self.retention)))

    @precondition(idle)
    @rule(
        data=st.data(), tokens=st.integers(1, 9), ordered=st.booleans(), replace=st.sampled_from([0, 0, 1, 3])
    )
    def stage(self, data: st.DataObject, tokens: int, ordered: bool, replace: int) -> None:
        self.begin(data, tokens, ordered, replace)

    def begin(self, data: st.DataObject, tokens: int, ordered: bool, replace: int) -> Stream | None:
        stream = self.pick(data, staged=False)
        replace = min(replace, len(stream.model.past))
        numbers = self.fresh(tokens)
        positions = [position(token) for token in numbers]
        mask = Causal() if ordered else Full()
        before = self.pool.counters().copies
        refs = [self.pool.pages.refs(page) for page in range(self.pool.pages.total)]
        with self.all_or_nothing():
            stream.stage = stream.cache.stage(tokens, mask, positions, replace)
        if stream.stage is None:
            return None
        stream.visible = stream.model.visible(tokens, ordered, replace)
        stream.tokens = numbers
        self.check_copies(stream, refs, self.pool.counters().copies - before)
        write(stream.stage, [-token for token in numbers])
        return stream

    def check_copies(self, stream: Stream, refs: list[int], copies: int) -> None:
        """Each page that others rely on was copied once before the write, and no other page was."""
        due = 0
        for table, view in zip(stream.cache.tables, stream.stage.views, strict=True):
            staged = view.staged.tolist()
            touched = {slot // view.page_size for slot in staged}
            assert all(self.pool.pages.refs(page) == 1 for page in touched)
            if table.stretch is not None:
                lost = {slot // view.page_size for slot in set(staged) & set(table.slots.tolist())}
                due += sum(refs[page] > 1 or page in lost for page in touched)
            elif staged[0] % view.page_size and staged[0] // view.page_size not in table.pages:
                due += 1
        assert copies == due

    @precondition(idle)
    @rule(
        data=st.data(), tokens=st.integers(1, 9), ordered=st.booleans(), replace=st.sampled_from([0, 0, 1, 3])
    )
    def push(self, data: st.DataObject, tokens: int, ordered: bool, replace: int) -> None:
        stream = self.begin(data, tokens, ordered, replace)
        if stream is not None:
            self.settle(stream, None)

    @precondition(idle)
    @rule(data=st.data(), tokens=st.integers(1, 4))
    def push_more(self, data: st.DataObject, tokens: int) -> None:
        stream = self.begin(data, tokens, ordered=True, replace=0)
        if stream is not None:
            self.settle(stream, None)

    @precondition(idle)
    @rule(data=st.data(), tokens=st.integers(1, 5), replace=st.sampled_from([0, 2]))
    def try_in_vain(self, data: st.DataObject, tokens: int, replace: int) -> None:
        stream = self.begin(data, tokens, ordered=False, replace=replace)
        if stream is not None:
            stream.stage.discard()
            stream.stage = None

    @precondition(staged)
    @rule(data=st.data())
    def overwrite(self, data: st.DataObject) -> None:
        stream = self.pick(data, staged=True)
        write(stream.stage, stream.tokens)

    @precondition(staged)
    @rule(data=st.data(), path=st.booleans())
    def commit(self, data: st.DataObject, path: bool) -> None:
        stream = self.pick(data, staged=True)
        last = len(stream.tokens) - 1
        self.settle(stream, sorted(data.draw(st.sets(st.integers(0, last)))) if path else None)

    def settle(self, stream: Stream, keep: list[int] | None) -> None:
        write(stream.stage, stream.tokens)
        stream.stage.commit(keep)
        kept = stream.tokens if keep is None else [stream.tokens[i] for i in keep]
        stream.model.commit(stream.visible, kept)
        stream.stage = None

    @precondition(staged)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        stream = self.pick(data, staged=True)
        stream.stage.discard()
        stream.stage = None

    @precondition(lambda self: self.idle() and len(self.streams) < 5)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        stream = self.pick(data, staged=False)
        before = self.pool.counters()
        cache = stream.cache.fork()
        after = self.pool.counters()
        assert (after.copies, after.free) == (before.copies, before.free)
        model = Model(stream.model.window, stream.model.sink, list(stream.model.past))
        self.streams.append(Stream(cache, model))

    @precondition(idle)
    @rule(data=st.data(), tokens=st.integers(0, 4))
    def rewind(self, data: st.DataObject, tokens: int) -> None:
        stream = self.pick(data, staged=False)
        tokens = min(tokens, len(stream.model.past))
        stream.cache.rewind(tokens)
        stream.model.past = stream.model.past[: len(stream.model.past) - tokens]

    @precondition(idle)
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        stream = self.pick(data, staged=False)
        past = stream.model.past
        dropped = data.draw(st.sets(st.integers(0, max(len(past) - 1, 0)), max_size=4))
        keep = [i for i in range(len(past)) if i not in dropped]
        with self.all_or_nothing():
            stream.cache.evict(np.array(keep, dtype=np.int64))
            stream.model.past = [past[i] for i in keep]
            for table in stream.cache.tables if not stream.cache.reserve else ():
                assert len(table.pages) == -(-len(keep) // table.page_size)

    @precondition(lambda self: self.idle() and not self.away)
    @rule(data=st.data())
    def swap_some_out(self, data: st.DataObject) -> None:
        idle = self.idle()
        group = [stream for stream in idle if data.draw(st.booleans())] or idle[:1]
        swapped = swap_out([stream.cache for stream in group])
        self.streams = [stream for stream in self.streams if stream not in group]
        self.away.append((swapped, group))

    @precondition(lambda self: self.away)
    @rule()
    def swap_back(self) -> None:
        swapped, group = self.away[0]
        with self.all_or_nothing():
            swap_in(swapped)
            self.away.pop(0)
            self.streams += group

    @precondition(lambda self: len(self.streams) > 2)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(self.streams))
        stream.cache.close()
        self.streams.remove(stream)

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.pool.check()
        poison(self.pool)
        for stream in self.streams:
            expected = stream.model.past if stream.stage is None else stream.visible
            for tokens in self.contents(stream):
                assert tokens == expected

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for stream in self.streams:
            stream.cache.close()
        assert self.pool.pages.free == self.pool.pages.total
        self.pool.check()


CASES = {
    "keep all": (KeepAll(), 0, LAYERS),
    "keep all, a table a layer": (KeepAll(), 0, 1),
    "window": (SinkWindow(5), 0, LAYERS),
    "sink and window, a table a layer": (SinkWindow(4, 3), 0, 1),
    "ring": (SinkWindow(5, 3), 8, LAYERS),
    "ring with slack, a table a layer": (SinkWindow(4, 1), 9, 1),
    "bounded": (KeepAll(), 10, LAYERS),
}


@pytest.mark.parametrize("case", CASES)
def test_any_sequence_of_calls_keeps_books_and_contents_right(case: str) -> None:
    retention, reserve, layers_per_page = CASES[case]
    names = {"retention": retention, "reserve": reserve, "layers_per_page": layers_per_page}
    test = type("Case", (Machine,), names).TestCase
    test.settings = settings(
        max_examples=20,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    test("runTest").runTest()
