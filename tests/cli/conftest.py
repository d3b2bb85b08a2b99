"""Run the command as people do: in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("fake_streamgen.py")
Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def fake(tmp_path: Path) -> Run:
    """The command over a painted pipeline, run in an empty folder."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, **options.pop("env", {})}
        settled = {
            "capture_output": True,
            "timeout": 60,
            "cwd": tmp_path,
            "stdin": subprocess.DEVNULL,
            **options,
        }
        if "input" in settled:
            del settled["stdin"]
        return subprocess.run([sys.executable, str(FAKE), *arguments], env=environment, **settled)

    return run


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """The same, still running."""

    def run(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(FAKE), *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return run
