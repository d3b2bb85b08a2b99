"""One studio of tiny random checkpoints for a whole file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the studio needs streamgen[studio]")

from starlette.testclient import TestClient

from apps.studio.studio import Studio
from tests.apps.studio import fakes
from tests.pipelines import worlds


@pytest.fixture(scope="session")
def world_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random world with keys."""
    return worlds.folder(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="module")
def served(world_folder: Path) -> Iterator[tuple[TestClient, Studio]]:
    """A studio whose World and Video tabs share that model."""
    with fakes.serving({"world": world_folder, "video": world_folder}) as both:
        yield both
