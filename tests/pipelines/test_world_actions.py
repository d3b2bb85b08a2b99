"""Actions reach the model: as planes, or through an embedding that begins as nothing."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.models.actions import ActionEmbedding
from streamgen.pipelines.world import WorldPipeline
from tests.models import tiny
from tests.pipelines.worlds import ACTIONS, PROMPT, WALK, MakeWorld, play

STILL = [set()] * len(WALK)
DIM = 24


def with_embedding(folder: Path, to: Path, embedding: ActionEmbedding) -> WorldPipeline:
    """A copy of a world checkpoint with this conditioner."""
    shutil.copytree(folder, to)
    embedding.save(to / "actions")
    return WorldPipeline.from_pretrained(to)


def frames(pipe: WorldPipeline, walk) -> np.ndarray:
    with pipe.start(PROMPT) as session:
        return play(session, walk)


def test_keys_of_planes_change_what_is_seen_and_several_codes_mean_the_same(world: MakeWorld) -> None:
    pipe = world(planes=["y", "x"], chunk=2, window=4, sink=2)
    walked = frames(pipe, WALK)
    assert not np.array_equal(walked, frames(pipe, STILL))
    same = [{"ArrowUp"}, {"ArrowRight"}, set(), {"KeyA"}, {"ArrowUp"}, set()]
    assert np.array_equal(walked, frames(pipe, same))


def test_an_untrained_embedding_leaves_the_world_as_it_was_and_a_trained_one_obeys(
    world_folder, tmp_path: Path
) -> None:
    folder = world_folder(actions=ACTIONS | {"input": "embedding"})
    with pytest.raises(UsageError, match="how actions reach the model"):
        WorldPipeline.from_pretrained(folder)
    fresh = with_embedding(folder, tmp_path / "fresh", ActionEmbedding(5, DIM))
    assert np.array_equal(frames(fresh, WALK), frames(fresh, STILL))
    trained = with_embedding(folder, tmp_path / "trained", tiny.seeded(ActionEmbedding(5, DIM)))
    assert not np.array_equal(frames(trained, WALK), frames(trained, STILL))


def test_a_recache_remembers_what_the_player_did_in_each_frame(world: MakeWorld) -> None:
    pipe = world(window=3, sink=1)
    with pipe.start(PROMPT) as session:
        play(session)
        before = session.memory.cache.read(0)
        session.set_prompt(PROMPT, mode="window", pin_sink=False)
        acts = session.moment.acts
        assert acts.shape == (4, 5) and acts[-1].tolist() == [1, 0, 0, 0, 0]
        assert acts[-3].tolist() == [0, 0, 0, 1, 0]
        # The first layer sees no history: the same latents and actions give it the same keys again.
        after = session.memory.cache.read(0)
        for old, new in zip(before, after, strict=False):  # behind the sink, which has moved
            torch.testing.assert_close(new[12:], old[12:], atol=1e-5, rtol=1e-5)


def test_a_world_runs_in_bf16_and_through_other_kernels(world: MakeWorld) -> None:
    pipe = world(options={"dtype": torch.bfloat16, "attention": "segments"})
    walked = frames(pipe, WALK)
    assert walked.shape == (6, 24, 32, 3)
    with pipe.start(PROMPT) as session, session.fork() as branch:
        assert np.array_equal(play(branch), walked)


def test_an_action_that_is_refused_costs_no_chunk(world: MakeWorld) -> None:
    with world().start(PROMPT) as session:
        first = session.step({"KeyW"})
        for wrong in ({"KeyQ"}, {"Jump"}, "KeyW"):
            with pytest.raises(UsageError):
                session.step(wrong)
        assert session.step().index == first.index + 1 and len(session.log.events) == 2
