"""Run the command as people do, in a process of its own, or quickly, in this one."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamgen.cli import backend, guard
from tests.cli import fake_streamgen

FAKE = Path(__file__).with_name("fake_streamgen.py")
Run = Callable[..., subprocess.CompletedProcess[bytes]]
Command = Callable[..., "Done"]


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


@dataclass(frozen=True)
class Done:
    """What a finished command leaves."""

    code: int
    out: bytes
    said: str


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Command:
    """The command in this process, where torch is imported already."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        code = guard.run(arguments)
        out, said = capfdbinary.readouterr()
        return Done(code, out, said.decode())

    return run


@pytest.fixture
def painted(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command in this process over the painted pipeline."""
    fake_streamgen.paint(lambda name, stand_in: monkeypatch.setattr(backend, name, stand_in))
    return command
