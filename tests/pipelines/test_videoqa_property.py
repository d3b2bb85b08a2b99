"""Any order of watching, asking and forking keeps the promises; an hour costs the same every minute."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamgen as sg
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.models.vlm import Piece, StreamingVLM
from streamgen.pipelines.videoqa import VideoQAPipeline, VideoQASession
from streamgen.pipelines.videoqa_memory import Memory, Uniform, Window
from streamgen.pipelines.videoqa_parts import QAParts
from streamgen.pipelines.videoqa_settings import VideoQASettings
from tests.models.tiny_vlms import LAYERS, encode, pair
from tests.pipelines.videoqa_models import SETTINGS, frames

FACTS = {name: value for name, value in SETTINGS.items() if name != "pipeline"} | {"prompt": "look "}
BUDGET, FRAME = 20, 4  # tokens


class Letters:
    """A tokenizer of letters."""

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": encode(text)}

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return "".join(chr(97 + number % 26) for number in ids)


def pipeline(memory: Memory, **changes: Any) -> VideoQAPipeline:
    _, vlm, vision = pair("llava_onevision")
    told = VideoQASettings.of({**FACTS, **changes})
    parts = QAParts("tiny", vlm, vision, Letters(), frozenset(), told, "auto", Arena())
    return VideoQAPipeline(parts, memory)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("watch"), st.integers(1, 5)),
        st.tuples(st.just("ask"), st.integers(0, 3)),
        st.tuples(st.just("fork"), st.booleans()),
        st.tuples(st.just("push"), st.just(0)),
    ),
    max_size=8,
)


@settings(max_examples=12, deadline=None)
@given(
    steps=steps,
    memory=st.sampled_from(
        [sg.Hermes(BUDGET), sg.Hermes(BUDGET, positions="eager"), Window(BUDGET), Uniform(BUDGET)]
    ),
)
def test_any_order_of_calls_keeps_the_books(steps: list[tuple[str, Any]], memory: Memory) -> None:
    qa = pipeline(memory)
    session = qa.open(overlap=1)
    try:
        for seed, (kind, how) in enumerate(steps):
            session = taken(session, kind, how, seed)
            session.room.pool.check()
            stats = session.stats
            assert all(length <= session.room.room.prompt + BUDGET for length in stats.tokens)
            assert stats.looked + stats.pending <= stats.frames
            assert stats.position < session.parts.vlm.limit
            for table in session.room.stream.cache.tables:
                assert table.positions is not None
                assert table.positions[:5].tolist() == [0, 1, 2, 3, 4]
                assert (np.diff(table.positions) > 0).all()
    finally:
        session.close()
    assert qa.parts.arena.held == 0


def taken(session: VideoQASession, kind: str, how: Any, seed: int) -> VideoQASession:
    """One step; the session to go on with."""
    if kind == "watch":
        list(session.watch(frames(how, seed=seed)))
    elif kind == "push":
        session.push(next(frames(1, seed=seed))[0], float(seed))
    elif kind == "ask" and not session.counts.looked:
        with pytest.raises(UsageError):
            session.ask("now?")
    elif kind == "ask":
        answer = session.ask("now?", most=3)
        for _, _ in zip(range(how), answer, strict=False):
            list(session.watch(frames(2, seed=seed)))
        close(answer)
    else:
        other = session.fork()
        left, stays = (session, other) if how else (other, session)
        left.close()
        return stays
    return session


def close(answer: Iterator[str]) -> None:
    answer.close()  # type: ignore[attr-defined]


def test_an_hour_costs_the_same_every_minute() -> None:
    qa = pipeline(sg.Hermes(64), fps=0.5, chunk=16)
    bytes_held, pages, prefilled, evicted = [], [], [], 0
    with qa.open() as session:
        for seen in session.watch(frames(1800, fps=0.5)):
            stats = session.stats
            bytes_held.append(stats.bytes_held)
            pages.append(stats.pages - stats.pages_free)
            prefilled.append(seen.prefilled)
            evicted += seen.eviction is not None
        assert len(prefilled) == 113 and evicted > 100
        assert session.counts.time == 3598
        assert set(prefilled[:-1]) == {16 * FRAME}
        assert len(set(bytes_held[2:])) == len(set(pages[2:])) == 1
        assert session.stats.bytes_reserved == qa.parts.arena.held
        assert session.stats.tokens == (5 + 64,) * LAYERS


def test_an_answer_computes_its_own_tokens_only(monkeypatch: pytest.MonkeyPatch) -> None:
    qa = pipeline(sg.Hermes(BUDGET))
    fed: list[int] = []
    plain = StreamingVLM.__call__

    def spy(self: StreamingVLM, piece: Piece, *rest: Any) -> Any:
        fed.append(piece.tokens)
        return plain(self, piece, *rest)

    monkeypatch.setattr(StreamingVLM, "__call__", spy)
    with qa.open() as session:
        counts = []
        for _ in session.watch(frames(20)):
            fed.clear()
            "".join(session.ask("now?", most=4))
            counts.append(list(fed))
    question = len(encode(qa.parts.settings.question.replace("{question}", "now?")))
    assert counts == [[question, 1, 1, 1]] * 10


def test_the_same_stream_gives_the_same_memory_in_other_company() -> None:
    qa = pipeline(sg.Hermes(BUDGET))
    busy = replace(qa.parts, arena=Arena())
    with qa.open() as alone, VideoQAPipeline(busy, sg.Hermes(BUDGET)).open(overlap=2) as crowd:
        list(alone.watch(frames(12)))
        others = [crowd.fork() for _ in range(2)]
        for seen in crowd.watch(frames(12)):
            for number, other in enumerate(others):
                list(other.watch(frames(2, seed=seen.index + 7 * number)))
        for layer in range(LAYERS):
            for one, other_one in zip(
                alone.room.stream.cache.read(layer), crowd.room.stream.cache.read(layer), strict=True
            ):
                assert (one == other_one).all()
        for other in others:
            other.close()
