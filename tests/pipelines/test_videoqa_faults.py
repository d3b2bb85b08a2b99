"""What a session refuses, and what happens when something fails: typed errors, nothing lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import streamgen as sg
from streamgen.errors import StreamgenError, UsageError
from streamgen.kv.arena import Arena, ArenaFullError
from streamgen.pipelines.chunk import Chunk
from streamgen.pipelines.videoqa import VideoQAPipeline, VideoQASession
from tests.pipelines.videoqa_models import checkpoint, frames, tokens_of


def test_a_question_before_any_frame_is_refused(session: VideoQASession) -> None:
    session.watch(frames(4))
    with pytest.raises(UsageError, match="lazy"):
        session.ask("what?")


def test_a_question_that_is_too_long_is_refused_before_anything(session: VideoQASession) -> None:
    list(session.watch(frames(2)))
    free = session.stats.pages_free
    with pytest.raises(UsageError, match="room=305"):
        session.ask("w5 " * 297)
    with pytest.raises(UsageError, match="at least 1"):
        session.ask("what?", most=0)
    assert session.stats.pages_free == free
    assert "".join(session.ask("what?"))


def test_the_stream_moves_on_under_an_answer_where_there_is_room_for_both(qa: VideoQAPipeline) -> None:
    with qa.open(overlap=1) as session, qa.open() as solo:
        list(session.watch(frames(6)))
        list(solo.watch(frames(6)))
        expected = "".join(solo.ask("what is seen?"))
        said = ""
        more = session.watch(frames(10, seed=1))
        for piece in session.ask("what is seen?"):
            said += piece
            next(more)
        assert said == expected
        assert len(session.evictions) > 3


def test_without_that_room_frames_wait_for_the_answer(session: VideoQASession) -> None:
    list(session.watch(frames(6)))
    answer = session.ask("what is seen?")
    next(answer)
    with pytest.raises(UsageError, match="overlap=1"):
        list(session.watch(frames(2, seed=1)))
    assert len(session.pending) == 2
    with pytest.raises(UsageError, match="overlap"):
        next(session.ask("and this?"))
    list(answer)
    assert len(session.flush()) == 1


def test_frames_that_cannot_be_watched_do_not_pile_up(session: VideoQASession) -> None:
    list(session.watch(frames(6)))
    answer = session.ask("what is seen?")
    next(answer)
    for seed in range(3):
        with pytest.raises(UsageError, match="overlap=1"):
            list(session.watch(frames(2, seed=seed)))
    assert [number for number, _, _ in session.pending] == [6, 7]
    assert session.counts.frames == 8
    list(answer)
    assert [seen.frames for seen in session.flush()] == [2]


def test_a_source_that_fails_loses_nothing(session: VideoQASession) -> None:
    class LostError(StreamgenError):
        pass

    def source() -> Iterator[Any]:
        yield from frames(5)
        raise LostError("the camera was unplugged")

    seen = []
    with pytest.raises(LostError):
        for one in session.watch(source()):
            seen.append(one.frames)
    assert seen == [2, 2, 1]
    assert session.stats.looked == 5 and not session.pending
    assert "".join(session.ask("what?"))


def test_a_chunk_that_fails_leaves_no_trace(session: VideoQASession, monkeypatch: pytest.MonkeyPatch) -> None:
    list(session.watch(frames(6)))
    before, free = tokens_of(session), session.stats.pages_free
    with monkeypatch.context() as patch:
        patch.setattr(session.room.keeper, "settle", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(session.watch(frames(2, seed=1)))
    for old, new in zip(before, tokens_of(session), strict=True):
        assert all((a == b).all() for a, b in zip(old, new, strict=True))
    assert session.stats.pages_free == free and len(session.pending) == 2
    assert len(session.flush()) == 1


def test_chunks_of_a_running_video_are_watched_by_their_rate(session: VideoQASession) -> None:
    def chunks() -> Iterator[Chunk]:
        for index in range(4):
            pixels = np.stack([frame for frame, _ in frames(4, seed=index)])
            yield Chunk(pixels, index, 4 * index, {}, torch.empty(0))

    times = [seen.time for seen in session.watch(chunks(), rate=8)]
    assert times == [0.5, 1.5]
    with pytest.raises(UsageError, match="rate=8"):
        list(session.watch(chunks()))


def test_frames_nearer_than_the_rate_are_passed_over(session: VideoQASession) -> None:
    list(session.watch(frames(16, fps=8)))
    assert session.stats.looked == 4
    list(session.watch(frames(16, fps=8), fps=8))
    assert session.stats.looked == 20


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (7, "cannot be watched"),
        ([3], "int came"),
        ([(np.zeros((4, 4)), 0.0)], "uint8"),
        ([(np.zeros((4, 4, 3), np.uint8), float("nan"))], "seconds"),
    ],
)
def test_what_is_no_source_is_refused(session: VideoQASession, source: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        list(session.watch(source))


def test_pictures_of_another_size_begin_another_chunk(session: VideoQASession) -> None:
    small = np.zeros((10, 10, 3), np.uint8)
    (frame, _), *_ = frames(1)
    assert session.push(frame, 0.0) == []
    assert [seen.frames for seen in session.push(small, 0.5)] == [1]
    assert len(session.pending) == 1


def test_a_pause_and_a_clock_that_starts_again_begin_another_chunk(session: VideoQASession) -> None:
    (frame, _), *_ = frames(1)
    assert session.push(frame, 5.0) == []
    assert [seen.time for seen in session.push(frame, 60.0)] == [5.0]
    assert [seen.time for seen in session.push(frame, 0.0)] == [60.0]
    assert [seen.time for seen in session.push(frame, 0.5)] == [0.5]


def test_a_closed_session_says_so(qa: VideoQAPipeline) -> None:
    session = qa.open()
    session.close()
    session.close()
    for call in (lambda: session.watch(frames(1)), lambda: session.ask("what?"), session.fork):
        with pytest.raises(UsageError, match="closed"):
            call()
    assert qa.parts.arena.held == 0


def test_bytes_come_back_when_a_session_is_dropped_or_fails(qa: VideoQAPipeline) -> None:
    with pytest.raises(ZeroDivisionError), qa.open() as session:
        list(session.watch(frames(4)))
        _ = 1 / 0
    assert qa.parts.arena.held == 0
    qa.open()
    assert qa.parts.arena.held == 0


def test_a_budget_of_bytes_is_kept(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    small = VideoQAPipeline.from_pretrained(folder, arena=Arena("100KiB"))
    with pytest.raises(ArenaFullError, match="video memory"):
        small.open()
    assert small.parts.arena.held == 0
    assert small.bytes() > 100 * 1024


def test_a_memory_that_no_position_fits_is_refused(qa: VideoQAPipeline, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1324 positions"):
        qa.open(memory=sg.Hermes(1200))
    with pytest.raises(UsageError, match="1324 positions"):
        VideoQAPipeline.from_pretrained(checkpoint(tmp_path / "model"), memory=sg.Hermes(1200))
    with pytest.raises(UsageError, match="overlap=-1"):
        qa.open(overlap=-1)
