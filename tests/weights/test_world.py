"""The procedural world and its judge: on the simulator's own frames the judge is always right."""

import numpy as np
import pytest

from weights.recipes.world import judge
from weights.recipes.world.prompts import describe, held_out, scenes, vocabulary
from weights.recipes.world.scene import HERO_LEFT, HERO_TOP, STEPS, render
from weights.recipes.world.terrain import CELL, levels

PICKED = [scenes()[i] for i in np.random.default_rng(0).integers(len(scenes()), size=40)]


def test_prompts_compose_at_least_300_ways_and_a_tenth_is_held_out() -> None:
    held = [held_out(scene) for scene in scenes()]
    assert len(held) >= 300
    assert 0.08 < np.mean(held) < 0.12


def test_every_description_uses_only_words_of_the_vocabulary() -> None:
    rng = np.random.default_rng(1)
    words = {word for scene in scenes() for word in describe(scene, rng).split()}
    assert words <= set(vocabulary())


@pytest.mark.parametrize("scene", PICKED, ids=str)
def test_the_judge_reads_true_frames_without_error(scene) -> None:
    first, *_, before, after = render(scene.look, [scene.walk] * 5, seed=len(str(scene)))
    assert judge.look(first) == (scene.look.biome, scene.look.time, scene.look.weather)
    assert judge.walk(before, after) == scene.walk
    assert judge.who(after).coat == scene.look.coat
    assert judge.heroes(first) == [(HERO_TOP, HERO_LEFT)]


def test_the_judge_finds_nothing_in_a_flat_picture() -> None:
    flat = np.full((64, 64, 3), 128, np.uint8)
    assert judge.walk(flat, flat) is None
    assert judge.heroes(flat) == []


def test_the_ground_is_the_same_wherever_the_camera_comes_from() -> None:
    wide = levels(-40, -20, 60, 90, seed=3)
    assert (wide[10:30, 25:50] == levels(-15, -10, 20, 25, seed=3)).all()


@pytest.mark.parametrize("walk", [walk for walk in STEPS if walk != "stay"])
def test_the_picture_scrolls_one_cell_a_frame(walk: str) -> None:
    look = PICKED[0].look.__class__("meadow", "day", "clear", "red")
    first, second = render(look, [walk], seed=5)
    down, right = STEPS[walk]
    moved = np.roll(first, (-down * CELL, -right * CELL), (0, 1))
    inside = np.s_[8:20, 8:20]  # away from the edges and the hero
    assert (moved[inside] == second[inside]).all()


@pytest.mark.parametrize("scene", PICKED[:12], ids=str)
def test_the_judge_measures_a_look_and_reads_the_ground(scene) -> None:
    frame = render(scene.look, ["stay"], seed=8)[0]
    nearest = min(scenes(), key=lambda other: judge.distance(frame, other.look))
    assert judge.look(frame) == (nearest.look.biome, nearest.look.time, nearest.look.weather)
    assert (judge.levels(frame, scene.look) == levels(0, 0, 16, 16, seed=8)).mean() > 0.7
