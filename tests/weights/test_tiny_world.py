"""The clips of tiny-world: the judge reads the keys and the looks back from the pictures."""

import numpy as np
import torch

from streamgen.pipelines.world_keys import Actions
from streamgen.pipelines.world_settings import ActionSettings
from weights.recipes.tiny_world.data import ACTIONS, LOOKS, SETTINGS, batch, play
from weights.recipes.world import judge


def test_every_frame_shows_what_its_key_did() -> None:
    played = ["stay", "north", "east", "east", "stay", "south", "west"]
    clip = play([LOOKS[0]] * len(played), played, seed=3)
    seen = [judge.walk(before, after) for before, after in zip(clip, clip[1:], strict=False)]
    assert seen == played[1:]


def test_a_batch_has_one_action_a_frame_and_a_prompt_that_fits() -> None:
    made = batch(4, 6, np.random.default_rng(0))
    assert made.frames.shape == (4, 6, 64, 64, 3) and made.acts.shape == (4, 6, 5)
    assert torch.equal(made.acts.sum(-1), torch.ones(4, 6)) and (made.acts[:, 0, 0] == 1).all()
    assert int(made.prompt.max()) < len(made.words) == 8
    assert len(LOOKS) == 36


def test_the_planes_of_a_checkpoint_are_those_of_the_clips() -> None:
    keys = tuple((name, tuple(codes)) for name, codes in SETTINGS["keys"].items())
    settings = ActionSettings("planes", keys, idle=True, exclusive=True, mouse=0)
    codes = {"stay": (), "north": ("KeyW",), "south": ("KeyS",), "west": ("KeyA",), "east": ("KeyD",)}
    for number, act in enumerate(ACTIONS):
        row = settings.row(Actions(frozenset(codes[act])))
        assert row.index(1.0) == number and sum(row) == 1
