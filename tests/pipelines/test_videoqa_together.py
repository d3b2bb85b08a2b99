"""Watching while others work: a world that is played on the same arena, and questions from another thread."""

import threading
from collections.abc import Callable
from pathlib import Path

import streamgen as sg
from streamgen.kv.arena import Arena
from streamgen.pipelines.videoqa import VideoQAPipeline
from tests.pipelines.videoqa_models import checkpoint, frames


def test_a_world_is_watched_while_it_is_played_and_one_arena_accounts_for_both(
    world_folder: Callable[..., Path], tmp_path: Path
) -> None:
    arena = Arena("64MiB")
    world = sg.WorldPipeline.from_pretrained(world_folder(), memory=arena)
    qa = VideoQAPipeline.from_pretrained(checkpoint(tmp_path / "qa"), memory=sg.Hermes(48), arena=arena)
    with world.start(prompt="a hero walks", seed=1) as played, qa.open() as session:
        chunks = (played.step() for _ in range(6))
        seen = [one.time for one in session.watch(chunks, rate=2)]
        held = dict(arena.report())
        assert set(held) == {"world memory", "video memory"}
        assert held["video memory"] == session.stats.bytes_reserved
        assert sum(held.values()) == arena.held
        assert len(seen) == session.stats.chunks > 1 and session.evictions
        assert "".join(session.ask("what was seen?"))
    assert arena.held == 0


def test_questions_from_another_thread_are_answered_while_the_stream_runs(tmp_path: Path) -> None:
    qa = VideoQAPipeline.from_pretrained(checkpoint(tmp_path / "qa"), memory=sg.Hermes(48))
    answers: list[str] = []
    with qa.open(overlap=1) as session:
        watched = session.watch(frames(16))
        next(watched)
        asking = threading.Thread(
            target=lambda: answers.extend("".join(session.ask("what was seen?")) for _ in range(3))
        )
        asking.start()
        count = 1 + sum(1 for _ in watched)
        asking.join()
        session.room.pool.check()
        assert count == 8 and len(answers) == 3 and all(answers)
        assert session.stats.questions == 3
