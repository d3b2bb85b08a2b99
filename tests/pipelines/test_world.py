"""Worlds: independent sessions, forks, undo, files, and pages that come back at once."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.models.wan_vae import StreamingVAE
from streamgen.pipelines.chunk import DeadChunkError
from streamgen.pipelines.world import WorldPipeline
from tests.pipelines.worlds import PROMPT, WALK, MakeWorld, play

MANY = (*WALK, *WALK)  # longer than the window, so the ring has wrapped


@pytest.mark.parametrize("positions", ["absolute", "window"])
def test_a_fork_and_its_parent_go_on_as_two_sessions_that_were_run_apart(
    world: MakeWorld, positions: str
) -> None:
    pipe = world(positions=positions)
    with pipe.start(PROMPT) as alone, pipe.start(PROMPT) as trunk:
        expected = play(alone, MANY + WALK)
        play(trunk, MANY)
        with trunk.fork() as branch:
            other = [{"KeyS"}] * 6
            assert np.array_equal(play(trunk), expected[-6:])
            bent = play(branch, other)
        with trunk.fork() as late, late.fork() as later:
            assert np.array_equal(play(late, WALK), play(later, WALK))
    with pipe.start(PROMPT) as apart:
        assert np.array_equal(play(apart, [*MANY, *other])[-6:], bent)
    assert not np.array_equal(bent, expected[-6:])
    assert pipe.parts.video.arena.held == 0


def test_a_fork_copies_no_page_and_takes_no_bytes_before_it_moves_on(world: MakeWorld) -> None:
    pipe = world()
    with pipe.start(PROMPT) as trunk:
        play(trunk, MANY)
        pool = trunk.memory.cache.pool
        before, held = pool.counters(), pipe.parts.video.arena.held
        forks = [trunk.fork() for _ in range(9)]
        after = pool.counters()
        assert (after.copies, after.used) == (before.copies, before.used)
        assert pipe.parts.video.arena.held == held
        for fork in forks:
            fork.close()
        pool.check()


def test_a_fork_outlives_the_session_it_came_from(world: MakeWorld) -> None:
    pipe = world()
    trunk = pipe.start(PROMPT)
    play(trunk, MANY)
    branch, twin = trunk.fork(), trunk.fork()
    twin.close()
    trunk.close()
    with branch, pipe.start(PROMPT) as alone:
        assert np.array_equal(play(branch), play(alone, MANY + WALK)[-6:])
    assert pipe.parts.video.arena.held == 0


@pytest.mark.parametrize("positions", ["absolute", "window"])
def test_after_undo_the_same_actions_give_the_same_frames(world: MakeWorld, positions: str) -> None:
    with world(positions=positions, chunk=2, window=4, sink=2, time_scale=2).start(PROMPT) as session:
        play(session, MANY)
        first = play(session, WALK[:3])
        session.undo(3)
        other = play(session, [{"KeyS"}] * 3)
        session.undo(2)
        session.undo()
        assert np.array_equal(play(session, WALK[:3]), first)
        assert not np.array_equal(other, first)
        session.memory.cache.pool.check()


def test_undo_goes_back_over_a_prompt_and_its_recache(world: MakeWorld) -> None:
    with world().start(PROMPT) as session:
        play(session, MANY)
        first = play(session, WALK[:2])
        session.undo(2)
        session.step({"KeyW"})
        session.set_prompt("sand by night", mode="last")
        session.step()
        session.undo(2)
        assert session.moment.prompt == PROMPT
        assert np.array_equal(play(session, WALK[:2]), first)
        with pytest.raises(UsageError, match="9 chunks cannot be undone"):
            session.undo(9)


def test_a_recache_of_the_window_makes_room_by_forgetting_old_moments(world: MakeWorld) -> None:
    with world().start(PROMPT) as session:
        play(session, MANY)
        for _ in range(4):
            session.set_prompt("sand by night", mode="window")
            session.step()
        assert 1 <= session.undoable <= 4
        session.undo(session.undoable)
        session.memory.cache.pool.check()


def test_a_step_that_fails_leaves_the_world_as_it_was(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = world()
    with pipe.start(PROMPT) as session, pipe.start(PROMPT) as other:
        play(session, MANY)
        expected = play(other, MANY + WALK)[-6:]
        plain = StreamingVAE.decode
        nothing = lambda self, x, state: (plain(self, x, state)[0] * float("nan"), state)  # noqa: E731
        monkeypatch.setattr(StreamingVAE, "decode", nothing)
        with pytest.raises(DeadChunkError):
            session.step({"KeyS"})
        monkeypatch.setattr(StreamingVAE, "decode", plain)
        assert np.array_equal(play(session), expected)


def test_a_saved_world_goes_on_bit_for_bit_in_another_process(
    world: MakeWorld, tmp_path: Path, world_folder
) -> None:
    pipe = world(positions="window", time_scale=2)
    with pipe.start(PROMPT, image=np.full((9, 9, 3), 80, np.uint8), seed=3) as session:
        play(session, MANY)
        session.set_prompt("sand by night", over=3)
        session.step()
        session.save(tmp_path / "world")
        expected = play(session)
    code = (
        "import sys, numpy as np; from streamgen.pipelines.world import WorldPipeline\n"
        "from tests.pipelines.worlds import play\n"
        "pipe = WorldPipeline.from_pretrained(sys.argv[1])\n"
        "session = pipe.load(sys.argv[2]); np.save(sys.argv[3], play(session))\n"
        "assert len(session.log.events) == 20\n"
    )
    arguments = [str(world_folder(2, positions="window")), str(tmp_path / "world"), str(tmp_path / "out.npy")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, timeout=300)
    assert np.array_equal(np.load(tmp_path / "out.npy"), expected)
    with pytest.raises(UsageError, match="holds no world"):
        pipe.load(tmp_path)


@pytest.mark.parametrize("positions", ["absolute", "window"])
def test_an_offloaded_world_holds_nothing_and_resumes_bit_for_bit(world: MakeWorld, positions: str) -> None:
    pipe = world(positions=positions)
    with pipe.start(PROMPT) as session, pipe.start(PROMPT) as other:
        expected = play(other, MANY + WALK)[-6:]
        held = pipe.parts.video.arena.held
        play(session, MANY)
        branch = session.fork()
        session.offload()
        branch.close()
        assert pipe.parts.video.arena.held <= held // 2 + 4096
        with pytest.raises(UsageError, match="resume"):
            session.step()
        session.resume()
        assert np.array_equal(play(session), expected)
    assert pipe.parts.video.arena.held == 0


def test_three_sessions_in_turn_give_what_each_gives_alone(world: MakeWorld) -> None:
    pipe = world()
    starts = [(PROMPT, 0), (PROMPT, 1), ("sand by night", 0)]
    alone = []
    for prompt, seed in starts:
        with pipe.start(prompt, seed=seed) as session:
            alone.append(play(session))
    sessions = [pipe.start(prompt, seed=seed) for prompt, seed in starts]
    turns = [[session.step(keys).frames for session in sessions] for keys in WALK]
    for number, session in enumerate(sessions):
        assert np.array_equal(np.concatenate([turn[number] for turn in turns]), alone[number])
        session.close()
    assert not np.array_equal(alone[0], alone[1]) and not np.array_equal(alone[0], alone[2])


def test_a_session_closed_crashed_or_dropped_gives_its_pages_back_at_once(world: MakeWorld) -> None:
    pipe = world(positions="window")
    arena = pipe.parts.video.arena
    gc.disable()
    try:
        session = pipe.start(PROMPT)
        play(session, MANY)
        session.close()
        session.close()
        assert arena.held == 0
        with pytest.raises(ZeroDivisionError), pipe.start(PROMPT) as session:
            play(session, MANY)
            1 / 0  # noqa: B018
        assert arena.held == 0
        dropped = pipe.start(PROMPT)
        play(dropped, MANY)
        branch = dropped.fork()
        del dropped
        assert arena.held > 0
        del branch
        assert arena.held == 0
    finally:
        gc.enable()


def test_reset_begins_again(world: MakeWorld) -> None:
    with world().start(PROMPT, image=np.full((9, 9, 3), 80, np.uint8)) as session:
        assert session.opening is not None and session.opening.frames.shape == (1, 24, 32, 3)
        first = play(session, MANY)
        session.set_prompt("sand by night")
        session.reset()
        assert np.array_equal(play(session, MANY), first)
        assert session.step().index == 13


def test_the_budget_is_kept_and_a_session_that_does_not_fit_takes_nothing(world: MakeWorld) -> None:
    pipe = world()
    with pipe.start(PROMPT):
        one = pipe.parts.video.arena.held
    small = world(options={"memory": Arena(budget=one + one // 2)})
    with small.start(PROMPT) as session, pytest.raises(MemoryError):
        play(session)
        small.start(PROMPT)
    assert small.parts.video.arena.held == 0


def test_a_world_without_a_window_is_refused(world: MakeWorld) -> None:
    with pytest.raises(UsageError, match="needs a window"):
        world(window=None).start(PROMPT)


def test_latents_of_forks_share_memory_until_they_part(world: MakeWorld) -> None:
    with world().start(PROMPT) as session:
        play(session)
        with session.fork() as branch:
            assert branch.moment is session.moment
            branch.step({"KeyW"})
            assert branch.moment is not session.moment
            assert torch.equal(session.moment.recent, session.fork().moment.recent)


def test_a_video_checkpoint_is_a_world_that_obeys_prompts_only(checkpoint) -> None:
    with WorldPipeline.from_pretrained(checkpoint()).start(PROMPT) as session:
        session.step()
        session.set_prompt("sand by night")
        with pytest.raises(UsageError, match="does not obey KeyW; it obeys no key"):
            session.step({"KeyW"})
        assert session.step().index == 1
