"""What `pip install .` brings: the command, registry and checkpoints, benchmarks; no recipes, no tests."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("streamgen", "apps", "weights", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing left over in the checkout can get in."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        place = ROOT / part
        if place.is_dir():
            shutil.copytree(place, source / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, source / part)
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(source)]
    subprocess.run(build, check=True, timeout=300, capture_output=True)
    [path] = out.glob("*.whl")
    return path


def test_the_wheel_holds_library_programs_and_checkpoints_but_no_recipes(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("streamgen/**/*.py")}
    registry = json.loads((ROOT / "weights" / "registry.json").read_text())
    bundled = {
        f"streamgen/_weights/{entry['folder']}/{file}"
        for entry in registry.values()
        for file in entry["files"]
        if "folder" in entry
    }
    assert modules | bundled | {"streamgen/py.typed", "streamgen/_weights/registry.json"} <= names
    assert "streamgen_apps/bench/video.py" in names
    assert not [name for name in names if "recipes" in name or name.startswith(("tests", "apps", "weights"))]


def test_the_installed_command_runs_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    subprocess.run(
        [*PIP, "install", "--no-deps", "--target", str(place), str(wheel)], check=True, timeout=300
    )
    environment = {**os.environ, "PYTHONPATH": str(place)}
    command = [sys.executable, "-m", "streamgen.cli", "models", "list", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    rows = json.loads(done.stdout)
    registered = json.loads((ROOT / "weights" / "registry.json").read_text())
    assert [row["name"] for row in rows] == list(registered)
    assert all(row["folder"].startswith(str(place)) for row in rows if row["folder"])
