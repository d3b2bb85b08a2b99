"""The bundled `tiny-world` obeys its keys and its prompts, judged by the simulator that it was trained on."""

from functools import cache

import numpy as np
import pytest

import streamgen as sg
from streamgen.cli.checksums import mismatches
from streamgen.models.registry import registry, resolve
from weights.recipes.tiny_world.evaluate import idle, span, starts
from weights.recipes.tiny_world.rollouts import Rollout, choose, obeyed, roll, walk
from weights.recipes.tiny_world.switches import BEFORE, Turn, arrived, layout, simulated, turns
from weights.recipes.world import judge
from weights.recipes.world.scene import HERO_LEFT, HERO_TOP

SEED = 3


@pytest.fixture(scope="module")
def pipe() -> "sg.WorldPipeline":
    return sg.WorldPipeline.from_pretrained("tiny-world")


@cache
def _rollouts(pipe: "sg.WorldPipeline", count: int, frames: int) -> list[Rollout]:
    return [roll(pipe, *picked) for picked in choose(count, frames, SEED)]


@cache
def _turns(pipe: "sg.WorldPipeline", mode: str) -> list[Turn]:
    return turns(pipe, 50, SEED, (mode,), after=8)


def test_the_files_are_the_registered_ones_and_small() -> None:
    assert mismatches(resolve("tiny-world"), registry()["tiny-world"].facts["files"]) == []
    size = sum(file.stat().st_size for file in resolve("tiny-world").rglob("*") if file.is_file())
    assert size <= 16 * 2**20


def test_worlds_begin_from_words_with_exactly_one_hero_in_its_place(pipe: "sg.WorldPipeline") -> None:
    assert starts(_rollouts(pipe, 32, 64)) >= 0.95


def test_the_picture_scrolls_as_commanded_and_the_hero_faces_its_way(pipe: "sg.WorldPipeline") -> None:
    early = span(_rollouts(pipe, 32, 64), 0, 64)
    assert early["obeys"] >= 0.98 and early["faces"] >= 0.98
    assert early["look"] >= 0.98 and early["coat"] >= 0.95
    assert early["overlap_db"] >= 31  # what is on screen keeps its shape and place


def test_600_frames_on_the_keys_are_still_obeyed_and_nothing_fades(pipe: "sg.WorldPipeline") -> None:
    long = _rollouts(pipe, 6, 600)
    middle, late = span(long, 64, 300), span(long, 300, 600)
    assert middle["obeys"] >= 0.95 and late["obeys"] >= 0.9
    assert late["faces"] >= 0.95 and late["look"] >= 0.95
    assert 0.75 <= late["contrast"] <= 1.25 and late["detail"] >= 0.6


def test_with_no_key_the_picture_stays(pipe: "sg.WorldPipeline") -> None:
    still, kept = idle(pipe, 6, 80, SEED)
    assert still >= 0.99 and kept >= 24


@pytest.mark.parametrize("mode", ["last", "window"])
def test_a_new_look_arrives_with_the_first_chunk(pipe: "sg.WorldPipeline", mode: str) -> None:
    made = _turns(pipe, mode)
    first = np.array([arrived(turn, turn.frames[BEFORE]) for turn in made])
    second = np.array([arrived(turn, turn.frames[BEFORE + 1]) for turn in made])
    assert first.mean() >= 0.85 and (first | second).mean() >= 0.95


@pytest.mark.parametrize("mode", ["last", "window"])
def test_keys_are_obeyed_and_the_land_is_kept_after_a_switch(pipe: "sg.WorldPipeline", mode: str) -> None:
    made = _turns(pipe, mode)
    obeys = np.concatenate([obeyed(turn.frames[BEFORE:], turn.played[BEFORE:]) for turn in made])
    assert obeys.mean() >= 0.95
    land = [np.mean([layout(turn) for turn in turned]) for turned in (made, map(simulated, made))]
    unrelated = np.mean([layout(turn) for turn in _turns(pipe, "cut")])
    assert unrelated < 0.4  # after a cut the land is another one
    assert land[0] - unrelated >= 0.5 * (land[1] - unrelated)


@pytest.mark.parametrize("name", ["meadow", "desert", "snow", "volcano"])
def test_a_world_begins_from_a_picture_that_ships_with_it(pipe: "sg.WorldPipeline", name: str) -> None:
    picture = pipe.openings[name]
    words = {"meadow": "a hero in a meadow", "desert": "a hero in a green coat in a desert"}
    words |= {"snow": "a hero in a purple coat in snow", "volcano": "a hero in a blue coat through lava"}
    with pipe.start(words[name], image=picture, seed=1) as world:
        assert world.opening is not None
        played = ["east"] * 4 + ["south"] * 4
        frames = np.concatenate((world.opening.frames, walk(world, played)))
    first = frames[0].astype(float) - np.asarray(picture, float)
    assert np.sqrt((first**2).mean()) < 8  # the codec's loss
    assert obeyed(frames, ["stay", *played]).mean() >= 0.85
    assert judge.heroes(frames[-1]) == [(HERO_TOP, HERO_LEFT)]
