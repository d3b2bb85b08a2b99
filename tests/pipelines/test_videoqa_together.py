"""Watching while others work: a world that is played on the same arena, and questions from another thread."""

import threading
from collections.abc import Callable
from pathlib import Path

import streamgen as sg
from streamgen.kv.arena import Arena
from streamgen.pipelines.videoqa import VideoQAPipeline
from tests.pipelines.videoqa_models import checkpoint, frames

WATCHED = {  # east through a meadow, then a new prompt, and west through snow
    "where is the hero now?": "snow",
    "which way does the hero walk now?": "west",
    "which coat does the hero wear now?": "blue",
    "which biome came first?": "meadow",
    "which biome came before this one?": "meadow",
    "how many biomes were visited?": "two",
    "was it night at any time?": "no",
}


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


def test_what_the_bundled_world_showed_is_answered_by_the_bundled_model_on_the_same_arena() -> None:
    arena = sg.CachePool("64MiB")
    world = sg.WorldPipeline.from_pretrained("tiny-world", memory=arena)
    qa = sg.VideoQAPipeline.from_pretrained("tiny-vlm", memory=sg.Hermes(24), arena=arena)
    told: dict[str, str] = {}
    with world.start("a hero in a blue coat in a meadow", seed=1) as played, qa.open() as session:
        list(session.watch((played.step({"KeyD"}) for _ in range(24)), rate=8))
        told["first"] = "".join(session.ask("where is the hero now?"))
        played.set_prompt("a hero in a blue coat through snow")
        list(session.watch((played.step({"KeyA"}) for _ in range(24)), rate=8))
        for question in WATCHED:
            told[question] = "".join(session.ask(question))
        held = dict(arena.report())
        assert held["video memory"] == session.stats.bytes_reserved
        assert set(held) == {"world memory", "home keys of world memory", "video memory"}
        assert sum(held.values()) == arena.held
        assert session.stats.looked == 12 and session.evictions
    assert told == {"first": "meadow", **WATCHED}
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
