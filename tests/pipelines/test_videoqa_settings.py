"""What a video-question checkpoint says of itself, and what is refused."""

import json
from pathlib import Path

import pytest

from streamgen.errors import UsageError
from streamgen.pipelines.videoqa_settings import FAMILIES, Guidance, VideoQASettings
from tests.pipelines.videoqa_models import SETTINGS

FACTS = {name: value for name, value in SETTINGS.items() if name != "pipeline"}


def test_a_published_checkpoint_needs_no_settings(tmp_path: Path) -> None:
    for family, fps in (("llava_onevision", 0.5), ("qwen2_5_vl", 1.0), ("qwen3_vl", 2.0)):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
        settings = VideoQASettings.load(tmp_path)
        assert (settings.fps, settings.chunk, settings.budget) == (fps, 16, 4000)
    assert set(FAMILIES) == {"llava_onevision", "qwen2_5_vl", "qwen3_vl"}


def test_an_unknown_family_without_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UsageError, match="bert"):
        VideoQASettings.load(tmp_path)


def test_settings_of_another_pipeline_are_refused(tmp_path: Path) -> None:
    (tmp_path / "streamgen.json").write_text('{"pipeline": "world"}')
    with pytest.raises(UsageError, match="'world'"):
        VideoQASettings.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fps": 0}, "fps 0"),
        ({"question": "what"}, "question"),
        ({"choice": "{question}"}, "options"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"prompt": " "}, "prompt"),
        ({"guidance": {"local": ""}}, "guidance.local"),
        ({"colour": 1}, "unknown colour"),
        ({"guidance": {"local_after": "no place"}}, "last"),
    ],
)
def test_settings_that_describe_nothing_are_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        VideoQASettings.of({**FACTS, **change})


def test_a_missing_entry_is_named() -> None:
    with pytest.raises(UsageError, match="lacks chunk"):
        VideoQASettings.of({name: value for name, value in FACTS.items() if name != "chunk"})


def test_a_past_question_stands_before_the_guidance() -> None:
    guidance = Guidance(local="near", overall="far")
    assert guidance.texts(None, "") == ("near", "near; far", "far")
    local, mixed, overall = guidance.texts("who?", "me")
    assert local == "Find recent details related to: Question: who? Answer: me. near"
    assert overall == "Context summary: Question: who? Answer: me. far"
    assert mixed == f"{local}; {overall}"
