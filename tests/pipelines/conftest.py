"""Tiny random checkpoints for the pipelines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamgen.pipelines.video import VideoPipeline
from tests.models import tiny

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
