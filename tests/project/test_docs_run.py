"""Every command and snippet of README and docs is run, or the page says why it is not."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.forking import ask, bin
from tests.project.pages import PAGES, ROOT, SHELL, blocks

RUNNING = [
    page
    for page in PAGES
    if any(block.runs and block.language in (*SHELL, "python") for block in blocks(page.read_text()))
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The socket of a process that has imported everything, and a folder for the PATH that leads to it."""
    folder = tmp_path_factory.mktemp("docs")
    path = str(folder / "socket")
    process = subprocess.Popen([sys.executable, "-m", "tests.project.forking", path], cwd=ROOT)
    until = time.monotonic() + 240
    while not Path(path).exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    yield path, bin(folder / "bin", path)
    process.kill()
    process.wait()


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_from_top_to_bottom(page: Path, server: tuple[str, Path], tmp_path: Path) -> None:
    path, programs = server
    said = tmp_path / "said.log"
    folder = tmp_path / "folder"
    folder.mkdir()
    with said.open("w") as out, open(os.devnull) as nothing:
        hands = (nothing.fileno(), out.fileno(), out.fileno())
        words = {"do": "page", "page": str(page), "bin": str(programs), "folder": str(folder)}
        code = ask(path, words, hands, patience=900)
    print(said.read_text())
    assert code == 0, said.read_text()[-4000:]
