"""Run a page from top to bottom: its Python in one namespace, its commands in a shell, all in one folder."""

import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

from tests.project.pages import PYTHON, SHELL, Block, blocks

LONGEST = 240  # seconds of one command


def run_page(words: dict[str, object]) -> int:
    """Run the page named in `words["page"]`, in the present folder; tell stderr what took how long."""
    os.environ["PATH"] = f"{words['bin']}:{os.environ['PATH']}"
    page = Path(str(words["page"]))
    space: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page.read_text()):
        try:
            _run(block, page, space)
        except SystemExit as error:
            return int(error.code or 0)
    return 0


def _run(block: Block, page: Path, space: dict[str, object]) -> None:
    if not block.runs or block.language not in (*SHELL, *PYTHON):
        return
    for command in block.first:
        _shell(command, page, block.line)
    for code in block.first_python:
        exec(compile(code, str(page), "exec"), space)
    if block.language in PYTHON:
        began = time.monotonic()
        _python(block, page, space)
        _say(page, block.line, "Python", began)
    else:
        for line in block.commands(run=True):
            _shell(line.words, page, line.number)


def _python(block: Block, page: Path, space: dict[str, object]) -> None:
    try:
        exec(compile("\n" * block.line + block.text, str(page), "exec"), space)  # lines count as in the page
    except Exception as error:
        traceback.print_exc()
        raise SystemExit(1) from error


def _shell(command: str, page: Path, line: int) -> None:
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], stdin=subprocess.DEVNULL, timeout=LONGEST
    )
    _say(page, line, command, began)
    if done.returncode:
        print(f"{page.name}:{line}: exit code {done.returncode}: {command}", file=sys.stderr)
        raise SystemExit(1)


def _say(page: Path, line: int, what: str, began: float) -> None:
    print(f"{time.monotonic() - began:6.1f} s  {page.name}:{line}: {what}", file=sys.stderr, flush=True)
