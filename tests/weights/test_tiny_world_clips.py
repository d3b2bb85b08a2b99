"""The clips of tiny-world: the judge reads the keys and the looks back from the pictures."""

import numpy as np
import torch

from streamgen.pipelines.world_keys import Actions
from streamgen.pipelines.world_settings import ActionSettings
from weights.recipes.tiny_world.data import ACTIONS, LOOKS, SETTINGS, batch, play, recached
from weights.recipes.world import judge


def test_every_frame_shows_what_its_key_did() -> None:
    played = ["stay", "north", "east", "east", "stay", "south", "west"]
    clip = play(LOOKS[0], played, seed=3)
    seen = [judge.walk(before, after) for before, after in zip(clip, clip[1:], strict=False)]
    assert seen == played[1:]


def test_the_hero_faces_where_it_went_last() -> None:
    clip = play(LOOKS[0], ["stay", "east", "stay", "stay", "north", "stay"], seed=3)
    assert [judge.who(frame).facing for frame in clip] == ["south", "east", "east", "east", "north", "north"]


def test_an_idle_picture_does_not_change() -> None:
    clip = play(LOOKS[0], ["stay"] * 4, seed=3)
    assert all((frame == clip[0]).all() for frame in clip)


def test_a_batch_has_one_action_a_frame_and_a_prompt_that_fits() -> None:
    made = batch(4, 6, np.random.default_rng(0))
    assert made.frames.shape == (4, 6, 64, 64, 3) and made.acts is not None and made.heard is not None
    assert torch.equal(made.acts.sum(-1), torch.ones(4, 6)) and (made.acts[:, 0, 0] == 1).all()
    assert int(made.prompt.max()) < len(made.words) == 6 + 3 * 2
    assert int(made.heard.max()) < len(made.words)
    assert len(LOOKS) == 216


def test_recache_in_training_renews_what_the_session_renews() -> None:
    """The words change before frame 6: `last` remembers frame 5 under the new ones, `window` 3 to 5."""
    prompt = (np.arange(8) >= 6).astype(np.int64)
    heard, lost = recached(prompt, 6, "none", False)
    assert heard.tolist() == prompt.tolist() and not lost.any()
    heard, lost = recached(prompt, 6, "last", False)
    assert heard.tolist() == [0, 0, 0, 0, 0, 1, 1, 1] and not lost.any()
    heard, lost = recached(prompt, 6, "window", False)
    assert heard.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert lost.tolist() == [False] * 4 + [True, True, False, False]  # they would see the future's words
    heard, lost = recached(prompt, 6, "window", True)
    assert heard[0] == 1 and lost.tolist() == [True] * 6 + [False] * 2


def test_the_planes_of_a_checkpoint_are_those_of_the_clips() -> None:
    keys = tuple((name, tuple(codes)) for name, codes in SETTINGS["keys"].items())
    settings = ActionSettings("planes", keys, idle=True, exclusive=True, mouse=0)
    codes = {"stay": (), "north": ("KeyW",), "south": ("KeyS",), "west": ("KeyA",), "east": ("KeyD",)}
    for number, act in enumerate(ACTIONS):
        row = settings.row(Actions(frozenset(codes[act])))
        assert row.index(1.0) == number and sum(row) == 1
