"""Checkpoints by name, by path, and by hub id when somebody asked for a download."""

import json
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from streamgen.errors import UsageError
from streamgen.models import registry
from streamgen.models.registry import resolve


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny-thing").mkdir()
    entries = {"tiny-thing": {}, "lost-thing": {}, "big-thing": {"hub": "owner/big-thing"}}
    (tmp_path / "registry.json").write_text(json.dumps(entries))
    monkeypatch.setattr(registry, "weights_folder", lambda: tmp_path)
    return tmp_path


def test_a_bundled_name_is_its_folder_and_a_path_is_itself(weights: Path, tmp_path: Path) -> None:
    assert resolve("tiny-thing") == weights / "tiny-thing"
    assert resolve(str(tmp_path)) == tmp_path


def test_a_bundled_folder_that_is_missing_is_said(weights: Path) -> None:
    with pytest.raises(UsageError, match="'lost-thing' comes with streamgen, but its folder is not in"):
        resolve("lost-thing")


def test_an_unknown_name_is_refused_with_those_that_are_known(weights: Path) -> None:
    with pytest.raises(
        UsageError, match="'tiny-thnig' is neither a folder nor a known checkpoint; known names: big-"
    ):
        resolve("tiny-thnig")


@pytest.mark.parametrize("name", ["owner/some-model", "big-thing"])
def test_a_hub_id_opens_a_connection_only_when_asked_to(
    weights: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []

    def snapshot(repo: str, **options: Any) -> str:
        calls.append({"repo": repo, **options})
        return "/cache/there"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert resolve(name, download=True) == Path("/cache/there")
    resolve(name)
    assert [call["local_files_only"] for call in calls] == [False, True]
    assert calls[0]["repo"] == ("owner/big-thing" if name == "big-thing" else name)


def test_a_hub_id_that_is_not_in_the_cache_says_how_to_get_it(weights: Path) -> None:
    with pytest.raises(UsageError, match="allow the download with download=True"):
        resolve("owner/surely-not-here")


def test_the_shipped_registry_can_be_read() -> None:
    assert all(entry.name == name for name, entry in registry.registry().items())
