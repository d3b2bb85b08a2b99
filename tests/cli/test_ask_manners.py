"""`streamgen ask` as people run it: pipes, terminals, readers that leave, Ctrl-C, sources that hang."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.frames import clips, servers

FAKE = str(Path(__file__).with_name("fake_ask.py"))
PAINTER = str(Path(__file__).with_name("fake_streamgen.py"))
CLOSED = b"the session was closed\n"
NOISE = b"a library prints to standard output\n"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """Two seconds of ten frames each, readable from a pipe."""
    return clips.write(tmp_path / "clip.mkv", clips.numbered(20))


def obey_ctrl_c() -> None:
    """Tests may run in a background job, whose children would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """The command, running in an empty folder."""
    running: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str, stdin: int = subprocess.DEVNULL, delay: str = "0") -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, FAKE, "ask", *arguments],
            cwd=tmp_path,
            env={**os.environ, "FAKE_DELAY": delay},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=obey_ctrl_c,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C; the program leaves, and does not wait for a server that has 600 s to answer."""
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


def wait_for_words(process: subprocess.Popen[bytes], words: bytes) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"{words!r} was not said.")


def test_a_video_comes_by_a_pipe_and_answers_go_down_another(start: Start, clip: Path) -> None:
    for arguments in (["-", "what?"], ["-i", "-", "what?"]):
        process = start(*arguments, stdin=subprocess.PIPE)
        out, said = process.communicate(clip.read_bytes(), 60)
        assert (process.returncode, out) == (0, b"what? 4 frames until 1.5 s \n")
        assert NOISE in said


@pytest.mark.parametrize(
    ("times", "seen"), [([], "what? 8 frames until 3.5 s "), (["--at", "1"], "what? 3 ")]
)
def test_a_video_that_is_being_made_is_asked_about(
    start: Start, tmp_path: Path, times: list[str], seen: str
) -> None:
    """Up to its end; or until the last answer, when whoever makes it finds nobody listening."""
    command = [sys.executable, PAINTER, "video", "a fox", "--seconds", "60" if times else "4", "-o", "-"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as maker:
        assert maker.stdout is not None and maker.stderr is not None
        process = start("-", "what?", *times, stdin=maker.stdout.fileno())
        maker.stdout.close()
        out, said = process.communicate(timeout=60)
        complaints = maker.stderr.read()
    assert (process.returncode, maker.returncode) == (0, 0), said + complaints
    assert out.decode().startswith(seen) and b"Traceback" not in said + complaints


def test_json_lines_are_all_that_stdout_holds(start: Start, clip: Path) -> None:
    out, said = start(str(clip), "a", "b", "--at", "1", "--at", "2", "--jsonl", "-q").communicate(timeout=60)
    told = [json.loads(line) for line in out.splitlines()]
    assert [(record["question"], record["seen_s"]) for record in told] == [("a", 1.0), ("b", 1.5)]
    assert said.replace(NOISE, b"") == CLOSED


def test_a_reader_that_leaves_ends_the_answers_quietly(start: Start, clip: Path) -> None:
    process = start(str(clip), *["what?"] * 200, "-q", delay="0.01")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    assert (process.wait(20), said.replace(NOISE, b"")) == (0, CLOSED)


@pytest.mark.parametrize("scheme", ["rtsp", "http"])
def test_ctrl_c_leaves_a_server_that_never_answers_long_before_its_timeout(start: Start, scheme: str) -> None:
    with servers.mute() as server:
        process = start(f"{scheme}://127.0.0.1:{server.port}/x", "what?", "--timeout", "600")
        end = time.monotonic() + 20
        while not server.connections and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)
        interrupt(process)


def test_ctrl_c_leaves_a_stalled_camera_long_before_its_timeout(start: Start, tmp_path: Path) -> None:
    stream = clips.write(tmp_path / "a.ts", clips.numbered(30), b_frames=0).read_bytes()
    with servers.rtsp(stream, lambda connection, number: time.sleep(60), 0.002) as server:
        url = f"rtsp://127.0.0.1:{server.port}/x"
        process = start(url, "what?", "--at", "99", "--timeout", "600")
        wait_for_words(process, b"watches")
        time.sleep(0.5)
        interrupt(process)
        assert process.stderr is not None and CLOSED in process.stderr.read()


def test_ctrl_c_in_an_answer_closes_the_session(start: Start, clip: Path) -> None:
    process = start(str(clip), "what?", delay="0.5")
    wait_for_words(process, NOISE)
    interrupt(process)
    assert process.stderr is not None and CLOSED in process.stderr.read()


def test_ctrl_c_while_the_video_has_no_end(start: Start) -> None:
    process = start("lavfi:testsrc2=rate=10:size=64x48", "what?")
    wait_for_words(process, b"watches")
    interrupt(process)


def test_a_live_source_is_asked_as_soon_as_something_was_seen(start: Start, tmp_path: Path) -> None:
    stream = clips.write(tmp_path / "a.ts", clips.numbered(30), b_frames=0).read_bytes()
    with servers.rtsp(stream, lambda connection, number: time.sleep(60), 0.01) as server:
        process = start(
            f"rtsp://127.0.0.1:{server.port}/x", "now?", "later?", "--at", "0.5", "--at", "2", "--jsonl"
        )
        out, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert [json.loads(line)["question"] for line in out.splitlines()] == ["now?", "later?"]
        process = start(f"rtsp://me:secret@127.0.0.1:{server.port}/x", "now?", "--jsonl")
        out, said = process.communicate(timeout=60)
    assert process.returncode == 0 and json.loads(out)["frames"] >= 1
    assert b"(live)" in said and b"secret" not in out + said


def test_questions_typed_in_a_terminal_are_answered_while_the_video_runs(start: Start) -> None:
    ours, theirs = pty.openpty()
    process = start("lavfi:testsrc2=rate=10:size=64x48,realtime", "-", stdin=theirs)
    wait_for_words(process, b"watches")
    assert process.stdout is not None
    answers = []
    for question in (b"first?\n", b"second?\n"):
        time.sleep(1.2)  # two frames and more
        os.write(ours, question)
        answers.append(process.stdout.readline().decode().split())
    assert [words[0] for words in answers] == ["first?", "second?"]
    assert 0 < int(answers[0][1]) < int(answers[1][1])
    interrupt(process)
    os.close(theirs)
    os.close(ours)


def test_a_terminal_may_ask_on_after_the_end_until_it_says_goodbye(start: Start, clip: Path) -> None:
    ours, theirs = pty.openpty()
    process = start(str(clip), "first?", "-", stdin=theirs)
    assert process.stdout is not None
    assert process.stdout.readline() == b"first? 4 frames until 1.5 s \n"
    os.write(ours, b"and?\n")
    assert process.stdout.readline() == b"and? 4 frames until 1.5 s \n"
    os.write(ours, b"\x04")  # Ctrl-D at the beginning of a line
    assert process.wait(20) == 0
    os.close(theirs)
    os.close(ours)


def test_standard_input_cannot_be_a_terminal_and_a_video(start: Start) -> None:
    ours, theirs = pty.openpty()
    process = start("-", "what?", stdin=theirs)
    assert process.wait(20) == 2
    assert process.stderr is not None and b"this terminal" in process.stderr.read()
    os.close(theirs)
    os.close(ours)


def test_a_server_that_refuses_is_a_failure_and_a_missing_file_is_asked_wrongly(start: Start) -> None:
    process = start("rtsp://127.0.0.1:9/x", "what?")
    assert process.wait(20) == 1 and b"Connection refused" in process.stderr.read()
    process = start("missing.mp4", "what?")
    assert process.wait(20) == 2 and process.stderr.read().count(b"\n") == 1
