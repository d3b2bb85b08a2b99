"""streamgen.json: every fact is there, and no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamgen.errors import UsageError
from streamgen.pipelines.settings import VideoSettings
from tests.models.tiny import SETTINGS


def settings(**changes: Any) -> VideoSettings:
    facts = {name: value for name, value in (SETTINGS | changes).items() if name != "pipeline"}
    return VideoSettings.of(facts)


def write(folder: Path, facts: dict[str, Any]) -> Path:
    (folder / "streamgen.json").write_text(json.dumps(facts))
    return folder


def test_settings_are_read_from_the_checkpoint_folder(tmp_path: Path) -> None:
    loaded = VideoSettings.load(write(tmp_path, SETTINGS))
    assert loaded == settings() and loaded.size == (32, 24) and loaded.steps == (1000, 500)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda facts: facts.pop("window"), r"lacks window; its entries are chunk"),
        (lambda facts: facts.update(windw=3), r"has unknown windw"),
        (lambda facts: facts.update(pipeline="image"), r"describes a 'image' checkpoint"),
        (lambda facts: facts.update(positions="relative"), r"'absolute' or 'window'"),
        (lambda facts: facts.update(planes=["z"]), r"Planes are 'y' and 'x'"),
        (lambda facts: facts.update(chunk=4), r"cannot hold a chunk of 4"),
        (lambda facts: facts.update(fps=0), r"describe no stream"),
        (lambda facts: facts.update(window=None, positions="window"), r"need a window"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, edit: Any, said: str) -> None:
    facts = dict(SETTINGS)
    edit(facts)
    with pytest.raises(UsageError, match=said):
        VideoSettings.load(write(tmp_path, facts))


def test_a_folder_without_settings_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no streamgen\.json, which says how the checkpoint streams"):
        VideoSettings.load(tmp_path)


def test_fewer_or_more_steps_are_spread_evenly_over_the_trained_ones() -> None:
    trained = settings(steps=[1000, 750, 500, 250])
    assert trained.few_steps(4) == trained.steps
    assert trained.few_steps(2) == (1000, 500)
    assert trained.few_steps(1) == (1000,)
    assert trained.few_steps(8) == (1000, 875, 750, 625, 500, 375, 250, 125)
    assert settings(steps=[1000, 757, 522], warp=False).few_steps(2) == (1000, 639.5)


def test_steps_that_end_at_zero_keep_their_number() -> None:
    with pytest.raises(UsageError, match="it takes 3; leave steps out"):
        settings(steps=[1000, 500, 0]).few_steps(2)
    with pytest.raises(UsageError, match="0 steps denoise nothing"):
        settings().few_steps(0)
    with pytest.raises(UsageError, match="give at most 1000"):
        settings().few_steps(1001)
