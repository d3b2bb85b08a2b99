"""Tiny random checkpoints for the pipelines."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import streamgen as sg
from streamgen.kv.arena import Arena
from streamgen.pipelines.video import VideoPipeline
from streamgen.pipelines.videoqa import VideoQAPipeline, VideoQASession
from streamgen.pipelines.world import WorldPipeline
from tests.models import tiny
from tests.pipelines import videoqa_models, worlds

MakePipeline = Callable[..., VideoPipeline]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A checkpoint folder with these settings; each kind is written once."""
    made: dict[str, Path] = {}

    def make(time_scale: int = 1, **settings: Any) -> Path:
        key = f"{time_scale} {sorted(settings.items())}"
        if key not in made:
            made[key] = tiny.folder(tmp_path_factory.mktemp("checkpoint"), time_scale, **settings)
        return made[key]

    return make


@pytest.fixture
def pipeline(checkpoint: Callable[..., Path]) -> MakePipeline:
    """A pipeline over a tiny random checkpoint."""

    def make(time_scale: int = 1, options: dict[str, Any] | None = None, **settings: Any) -> VideoPipeline:
        return VideoPipeline.from_pretrained(checkpoint(time_scale, **settings), **options or {})

    return make


@pytest.fixture(scope="session")
def world_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A world checkpoint folder with these settings; each kind is written once."""
    made: dict[str, Path] = {}

    def make(time_scale: int = 1, **settings: Any) -> Path:
        key = f"{time_scale} {sorted(settings.items())}"
        if key not in made:
            made[key] = worlds.folder(tmp_path_factory.mktemp("world"), time_scale, **settings)
        return made[key]

    return make


@pytest.fixture
def world(world_folder: Callable[..., Path]) -> worlds.MakeWorld:
    """A pipeline over a tiny random world."""

    def make(time_scale: int = 1, options: dict[str, Any] | None = None, **settings: Any) -> WorldPipeline:
        return WorldPipeline.from_pretrained(world_folder(time_scale, **settings), **options or {})

    return make


@pytest.fixture(scope="module")
def qa(tmp_path_factory: pytest.TempPathFactory) -> VideoQAPipeline:
    """Over a tiny random model, with HERMES in an arena of its own."""
    folder = videoqa_models.checkpoint(tmp_path_factory.mktemp("qa") / "model")
    return VideoQAPipeline.from_pretrained(folder, memory=sg.Hermes(budget=64), arena=Arena())


@pytest.fixture
def session(qa: VideoQAPipeline) -> Iterator[VideoQASession]:
    """Open, and found to have given everything back."""
    with qa.open() as opened:
        yield opened
        opened.room.pool.check()
    assert qa.parts.arena.held == 0
