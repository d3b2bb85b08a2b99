"""Closed streams, bytes that are no words, and Ctrl-C: one sentence each, whatever the command."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamgen.cli import backend, guard
from tests.cli.conftest import FAKE, Command

LATIN = b"caf\xe9"
COMMANDS = {
    "text": ("text", "a fox"),
    "video": ("video", "a fox"),
    "world": ("world", "-p", "a fox"),
    "image": ("image", "1"),
    "ask": ("ask", "fox.mp4", "what?"),
    "plan": ("plan", "tiny-lm"),
    "bench": ("bench", "world"),
}
READERS = {
    "text": ("text", "-"),
    "lines": ("text", "--lines", "-"),
    "video": ("video", "-"),
    "world": ("world", "-p", "-"),
}
LIVE = {
    "actions": ("world", "-p", "a fox", "--actions", "-"),
    "questions": ("ask", "fox.mp4"),
    "a video": ("ask", "-", "what?"),
}


def closed(streams: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """The command as a shell starts it with `>&-` and the like."""
    words = ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, str(FAKE), *arguments]
    return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, cwd=cwd)


@pytest.mark.parametrize("arguments", [("models", "list"), ("video", "a fox", "-o", "fox.y4m"), ("--help",)])
def test_a_closed_stdout_is_refused_before_anything_else_gets_its_number(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = closed(">&-", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"Standard output is closed" in done.stderr and not list(tmp_path.iterdir())


def test_a_closed_stderr_hears_nothing_and_no_sentence_goes_among_the_frames(tmp_path: Path) -> None:
    frames = ("video", "a fox", "--frames", "2", "-o", "-", "-f", "rawvideo")
    assert closed("2>&-", *frames, cwd=tmp_path).stdout == bytes(48 * 32 * 3) + bytes([1]) * (48 * 32 * 3)
    wrong = closed("2>&-", "video", "a fox", "--frames", "-1", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, b"")


@pytest.mark.parametrize("arguments", [("--help",), ("video", "--help"), ("models", "list")])
def test_a_reader_that_left_is_no_failure(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, str(FAKE), *arguments]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, timeout=60, cwd=tmp_path)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("reader", [*READERS, *LIVE])
def test_a_closed_stdin_is_refused_where_it_is_read(
    command: Command, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    done = command(*(READERS | LIVE)[reader])
    assert (done.code, done.out, done.said.count("\n")) == (2, b"", 1)
    assert "Standard input is closed" in done.said


def test_a_closed_stdin_is_no_matter_where_nothing_is_read(
    painted: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert painted("video", "a fox", "--frames", "4", "-o", "fox.y4m", "-q").code == 0
    assert painted("video", "a fox", "--frames", "4", "-o", "fox.y4m", "-q").code == 2  # is there already


@pytest.mark.parametrize("reader", READERS)
def test_bytes_on_stdin_that_are_no_words_are_one_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LATIN), errors="surrogateescape"))
    done = command(*READERS[reader])
    assert (done.code, done.said) == (2, "streamgen: The prompt from standard input is not UTF-8 text.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("text", "WORDS"),
        ("video", "WORDS"),
        ("video", "a fox", "--prompt-at", "1s:WORDS"),
        ("world", "-p", "WORDS"),
        ("world", "-p", "a fox", "--prompt-at", "1s:WORDS"),
        ("ask", "fox.mp4", "WORDS"),
    ],
)
def test_bytes_on_the_command_line_that_are_no_words_are_one_sentence(
    command: Command, arguments: tuple[str, ...]
) -> None:
    done = command(*(word.replace("WORDS", os.fsdecode(LATIN)) for word in arguments))
    assert (done.code, done.out, done.said.count("\n")) == (2, b"", 1)
    assert "is not UTF-8 text." in done.said


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_is_said(command: Command, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def interrupted(model: str) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(backend, "folder_of", interrupted)
    done = command(*COMMANDS[name])
    assert (done.code, done.out, done.said) == (130, b"", "streamgen: interrupted.\n")


def test_ctrl_c_before_anything_is_imported_is_said_too(tmp_path: Path) -> None:
    code = (
        "import sys; from streamgen.cli import main\n"
        "class Slow:\n"
        "    def find_spec(self, name, *others):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Slow()); main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, b"streamgen: interrupted.\n")


def test_help_without_arguments_is_all_that_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert guard.run([]) == 2
    out, said = capfd.readouterr()
    assert "Usage: streamgen" in out and said == ""
