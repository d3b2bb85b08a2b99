"""What `pip install .` brings: the command, registry and checkpoints, benchmarks; no recipes, no tests."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.request import urlopen

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


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with nothing but the wheel in it."""
    place = tmp_path_factory.mktemp("site")
    command = [*PIP, "install", "--no-deps", "--target", str(place), str(wheel)]
    subprocess.run(command, check=True, timeout=300)
    return place


def test_the_installed_command_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "streamgen.cli", "models", "list", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    rows = json.loads(done.stdout)
    registered = json.loads((ROOT / "weights" / "registry.json").read_text())
    assert [row["name"] for row in rows] == list(registered)
    assert all(row["folder"].startswith(str(installed)) for row in rows if row["folder"])


# Loading never ends here, and says whether torch was there when it began.
BLOCKED = """
import sys, threading
from streamgen_apps.studio.shelf import Shelf

def load(shelf):
    print("loading begins", "torch" in sys.modules, file=sys.stderr, flush=True)
    threading.Event().wait()

Shelf.load = load
sys.argv = ["streamgen", "demo", "--port", "0"]
from streamgen.cli import main
main()
"""


def test_the_installed_studio_serves_its_page_before_any_model_is_loaded(
    installed: Path, tmp_path: Path
) -> None:
    pytest.importorskip("gradio", reason="the studio needs streamgen[studio]")
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    studio = subprocess.Popen(
        [sys.executable, "-c", BLOCKED], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert studio.stderr is not None
        [address] = re.findall(r"http://[\d.:]+/", studio.stderr.readline())
        with urlopen(address, timeout=60) as early:
            assert (early.status, b"streamgen studio" in early.read()) == (200, True)
        assert studio.stderr.readline() == "loading begins False\n"  # the whole page stands, without torch
        with urlopen(f"{address}loading", timeout=60) as answer:
            told = json.load(answer)
        assert told["page"] == {"ready": True, "trouble": ""}
        assert {model["state"] for model in told["models"]} == {"waiting"}
        with urlopen(address, timeout=60) as page:
            assert b"gradio" in page.read()
    finally:
        studio.kill()
        studio.wait()
