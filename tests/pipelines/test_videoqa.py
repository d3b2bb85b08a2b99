"""A session that watches and answers: what it computes, keeps, forgets, tells and gives back."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import streamgen as sg
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.pipelines.videoqa import VideoQAPipeline, VideoQASession
from streamgen.pipelines.videoqa_memory import Full, StreamLimitError, Uniform, Window, named
from tests.pipelines.videoqa_models import FRAME, assert_same, frames, tokens_of

PROMPT = 11


def test_each_chunk_is_told_and_only_its_own_tokens_are_computed(session: VideoQASession) -> None:
    seen = list(session.watch(frames(7)))
    assert [one.frames for one in seen] == [2, 2, 2, 1]
    assert [one.prefilled for one in seen] == [2 * FRAME, 2 * FRAME, 2 * FRAME, FRAME]
    assert [one.index for one in seen] == [0, 1, 2, 3]
    assert [one.time for one in seen] == [0.5, 1.5, 2.5, 3.0]
    assert session.stats.prefilled == 7 * FRAME
    assert set(seen[0].timing) == {"vision", "prefill", "memory"}


def test_watching_is_lazy(session: VideoQASession) -> None:
    given = 0

    def source() -> Iterator[Any]:
        nonlocal given
        for frame in frames(10):
            given += 1
            yield frame

    watching = session.watch(source())
    assert given == 0
    next(watching)
    assert given == 2


def test_bytes_and_work_stay_the_same_for_ever(session: VideoQASession) -> None:
    held, free, computed, highest = [], [], [], []
    for seen in session.watch(frames(80)):
        stats = session.stats
        held.append(stats.bytes_held)
        free.append(stats.pages_free)
        computed.append(seen.prefilled)
        highest.append(stats.position)
    assert session.room.parts.arena.held == session.stats.bytes_reserved
    assert len(set(held[3:])) == len(set(free[3:])) == len(set(computed)) == 1
    assert max(highest) < session.parts.vlm.limit
    assert any(eviction.renumbered for eviction in session.evictions)


def test_evictions_are_logged_with_their_reason(session: VideoQASession) -> None:
    told = [seen.eviction for seen in session.watch(frames(8))]
    assert told[:2] == [None, None]
    assert [eviction for eviction in told if eviction] == list(session.evictions)
    eviction = session.evictions[0]
    assert eviction.chunk == 2 and eviction.time == 2.5
    assert eviction.before == (PROMPT + 96,) * 10 and eviction.after == (PROMPT + 64,) * 10
    assert eviction.summaries == (7, 8, 9) and eviction.layers == tuple(range(10))
    assert "96 video tokens" in eviction.why and "64" in eviction.why


def test_asking_leaves_the_memory_as_it_was(session: VideoQASession) -> None:
    list(session.watch(frames(8)))
    before, free = tokens_of(session), session.stats.pages_free
    first = "".join(session.ask("what is the man holding right now?"))
    assert first == "".join(session.ask("what is the man holding right now?"))
    for old, new in zip(before, tokens_of(session), strict=True):
        assert all((a == b).all() for a, b in zip(old, new, strict=True))
    assert session.stats.pages_free == free
    assert session.stats.first_token is not None
    assert [exchange.answer for exchange in session.history] == [first] * 2


def test_an_answer_that_is_not_read_to_its_end_guides_nothing(session: VideoQASession) -> None:
    list(session.watch(frames(4)))
    free = session.stats.pages_free
    answer = session.ask("what?")
    next(answer)
    answer.close()  # type: ignore[attr-defined]
    assert not session.history and session.stats.pages_free == free


def test_past_questions_guide_the_memory_unless_switched_off(qa: VideoQAPipeline) -> None:
    def run(steer: bool, question: str | None) -> VideoQASession:
        session = qa.open(steer=steer)
        list(session.watch(frames(6)))
        if question is not None:
            list(session.ask(question))
        list(session.watch(frames(6, seed=1)))
        return session

    with run(True, None) as plain, run(True, "where did the red car go?") as steered:
        assert any((a[2] != b[2]).any() for a, b in zip(tokens_of(plain), tokens_of(steered), strict=True))
        with run(False, "where did the red car go?") as deaf:
            assert_same(plain, deaf)


def test_options_are_listed_and_a_bare_letter_is_understood(qa: VideoQAPipeline) -> None:
    from streamgen.pipelines.videoqa_answer import listed, meant

    assert listed(["left", "right"]) == "(A) left\n(B) right"
    assert meant(" (B).", ["left", "right"]) == "right"
    assert meant("A) left", ["left", "right"]) == "left"
    assert meant("C", ["left", "right"]) == "C"
    with pytest.raises(UsageError, match="no choice"):
        listed(["only"])
    with qa.open() as session:
        list(session.watch(frames(2)))
        "".join(session.ask("where?", options=["left", "right"], most=2))
        assert session.history[-1].options == ("left", "right")


def test_a_window_keeps_the_last_tokens(qa: VideoQAPipeline) -> None:
    with qa.open(memory=Window(40)) as session:
        list(session.watch(frames(10)))
        for table in session.room.stream.cache.tables:
            assert table.positions is not None
            newest = PROMPT + 10 * FRAME
            assert table.positions[PROMPT:].tolist() == list(range(newest - 40, newest))


def test_uniform_frames_are_spread_over_all_that_was_watched(qa: VideoQAPipeline) -> None:
    with qa.open(memory=Uniform(4 * FRAME)) as session:
        list(session.watch(frames(30)))
        keeper = session.room.keeper
        shown = sorted(set(keeper.state["shown"]))
        assert shown == [0, 8, 16, 24] and keeper.state["stride"] == [8]
        assert session.stats.looked < session.stats.frames == 30
        assert session.stats.tokens == (PROMPT + 4 * FRAME,) * 10


def test_a_full_memory_equals_one_that_never_has_to_forget(qa: VideoQAPipeline) -> None:
    with qa.open(memory=Full(6 * FRAME)) as full, qa.open(memory=sg.Hermes(6 * FRAME)) as hermes:
        for session in (full, hermes):
            list(session.watch(frames(6)))
        assert_same(full, hermes)
        before = tokens_of(full)
        with pytest.raises(StreamLimitError, match="hermes"):
            list(full.watch(frames(2, seed=3)))
        assert len(full.pending) == 2
        for old, new in zip(before, tokens_of(full), strict=True):
            assert all((a == b).all() for a, b in zip(old, new, strict=True))
        assert "".join(full.ask("what?"))


def test_memories_have_names(qa: VideoQAPipeline) -> None:
    assert named("hermes", 64) == sg.Hermes(64)
    assert named("full", None) == Full()
    with pytest.raises(UsageError, match="hermes, window"):
        named("all", 3)
    with pytest.raises(UsageError, match="needs a budget"):
        named("window", None)
    with qa.open(memory="window") as session:
        assert session.room.memory == Window(64)


def test_a_fork_goes_its_own_way_and_gives_its_own_bytes_back(qa: VideoQAPipeline) -> None:
    with qa.open() as session:
        list(session.watch(frames(7)))
        session.push(next(frames(1, seed=9))[0], 9.0)
        with session.fork() as other:
            assert_same(session, other)
            assert qa.parts.arena.held == 2 * session.stats.bytes_reserved
            assert len(other.pending) == len(session.pending) == 1
            list(other.watch(frames(4, seed=2)))
            assert other.stats.chunks == session.stats.chunks + 3
        before = "".join(session.ask("what?"))
        assert "".join(session.ask("what?")) == before
        assert qa.parts.arena.held == session.stats.bytes_reserved
    assert qa.parts.arena.held == 0


@pytest.mark.parametrize("memory", ["hermes", "window", "uniform", "full"])
def test_a_saved_session_goes_on_bit_for_bit(qa: VideoQAPipeline, memory: str, tmp_path: Path) -> None:
    with qa.open(memory=memory) as session:
        list(session.watch(frames(9)))
        list(session.ask("what is seen?"))
        session.push(next(frames(1, seed=9))[0], 9.0)
        session.save(tmp_path / "kept")
        with qa.load(tmp_path / "kept") as loaded:
            assert_same(session, loaded)
            assert loaded.stats == session.stats
            assert loaded.evictions == session.evictions and loaded.history == session.history
            for one in (session, loaded):
                list(one.watch(frames(5, seed=4)))
            assert_same(session, loaded)
            assert "".join(session.ask("and now?")) == "".join(loaded.ask("and now?"))


def test_only_a_session_is_loaded_and_only_a_session_is_replaced(
    qa: VideoQAPipeline, session: VideoQASession, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="holds no session"):
        qa.load(tmp_path)
    with pytest.raises(UsageError, match="name a new folder"):
        session.save(tmp_path)


def test_two_sessions_on_one_model_do_not_mix(qa: VideoQAPipeline) -> None:
    with qa.open() as solo, qa.open() as one, qa.open() as other:
        list(solo.watch(frames(8)))
        alone = "".join(solo.ask("what is seen?"))
        mine, theirs = one.watch(frames(8)), other.watch(frames(8, seed=7))
        for _ in range(4):
            next(mine)
            next(theirs)
        reading, said = other.ask("who?"), ""
        for piece in one.ask("what is seen?"):
            next(reading, None)
            said += piece
        assert said == alone
        assert_same(solo, one)


@pytest.mark.parametrize("kernel", ["sdpa", "segments", "reference"])
def test_every_kernel_remembers_and_answers_the_same(qa: VideoQAPipeline, kernel: str) -> None:
    other = VideoQAPipeline(replace(qa.parts, attention=kernel, arena=Arena()), qa.memory)
    with qa.open() as session, other.open() as twin:
        for one in (session, twin):
            list(one.watch(frames(8)))
        for (k, v, places), (k2, v2, places2) in zip(tokens_of(session), tokens_of(twin), strict=True):
            assert (places == places2).all()
            assert (k - k2).abs().max() < 1e-4 and (v - v2).abs().max() < 1e-4
        assert "".join(session.ask("what is seen?")) == "".join(twin.ask("what is seen?"))
