"""The bundled `tiny-video` does what it is asked, judged by the simulator that it was trained on."""

from functools import cache

import numpy as np
import pytest

import streamgen as sg
from streamgen.cli.checksums import mismatches
from streamgen.errors import StreamgenWarning
from streamgen.models.registry import registry, resolve
from weights.recipes.tiny_video.evaluate import Score, choose, clip, score

SHORT = 5  # seconds
LONG = 60


@pytest.fixture(scope="module")
def pipe() -> sg.VideoPipeline:
    return sg.VideoPipeline.from_pretrained("tiny-video")


@cache
def _short(pipe: sg.VideoPipeline) -> Score:
    frames = round(SHORT * pipe.settings.fps)
    return score(
        [(scene, clip(pipe, prompt, frames, seed)) for scene, prompt, seed in choose(100, seed=1)], tail=8
    )


@cache
def _long(pipe: sg.VideoPipeline) -> Score:
    frames = round(LONG * pipe.settings.fps)
    return score(
        [(scene, clip(pipe, prompt, frames, seed)) for scene, prompt, seed in choose(6, seed=2)], tail=64
    )


def test_the_files_are_the_registered_ones_and_small() -> None:
    assert mismatches(resolve("tiny-video"), registry()["tiny-video"].facts["files"]) == []
    size = sum(file.stat().st_size for file in resolve("tiny-video").rglob("*") if file.is_file())
    assert size <= 16 * 2**20


def test_streams_begin_with_exactly_one_hero_in_its_place(pipe: sg.VideoPipeline) -> None:
    assert _short(pipe).start >= 0.95


@pytest.mark.parametrize("what", ["look", "walk", "coat"])
def test_five_seconds_follow_100_prompts_half_of_them_never_shown(pipe: sg.VideoPipeline, what: str) -> None:
    assert getattr(_short(pipe), what) >= 0.95


@pytest.mark.parametrize("what", ["look", "walk", "coat"])
def test_a_minute_of_one_stream_still_follows_its_prompt(pipe: sg.VideoPipeline, what: str) -> None:
    assert getattr(_long(pipe), what) >= 0.9


def test_a_minute_neither_fades_nor_blurs(pipe: sg.VideoPipeline) -> None:
    last = _long(pipe)
    assert 0.85 <= last.contrast <= 1.15
    assert last.detail >= 0.7


def test_unknown_words_are_named(pipe: sg.VideoPipeline) -> None:
    with pytest.warns(StreamgenWarning, match="dragon"):
        next(pipe.stream("a hero rides a dragon through snow", frames=1))


def test_a_prompt_change_turns_the_stream(pipe: sg.VideoPipeline) -> None:
    """The new look arrives while the stream goes on, and the coat that was not changed stays."""
    from weights.recipes.world import judge

    old, new = (
        "a hero in a blue coat walks east through a meadow by day",
        "a hero in a blue coat walks east through snow at night",
    )
    frames = np.concatenate(
        [chunk.frames for chunk in pipe.stream(old, frames=32, seed=4, prompt_at=[(2.0, new)])]
    )
    assert judge.look(frames[12])[:2] == ("meadow", "day")
    assert judge.look(frames[-1])[:2] == ("snow", "night")
    assert judge.who(frames[-1]).coat == "blue"
