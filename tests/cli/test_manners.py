"""stdout carries frames or JSON and nothing else; interruptions and broken pipes end well."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import av
import pytest


def decoded(path: Path | str) -> list[av.VideoFrame]:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def wait_for_bytes(path: Path, least: int, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size >= least):
        assert time.monotonic() < end, f"{path} did not reach {least} bytes."
        time.sleep(0.02)


def test_a_file_holds_exactly_the_frames_asked_for(fake, tmp_path: Path) -> None:
    for frames in (1, 4, 7):
        done = fake("video", "a fox", "--frames", str(frames), "-o", "fox.mp4", "-y")
        assert (done.returncode, done.stdout) == (0, b"")
        assert len(decoded(tmp_path / "fox.mp4")) == frames


def test_seconds_count_in_the_models_frame_rate(painted, tmp_path: Path) -> None:
    assert painted("video", "a fox", "--seconds", "1.5", "-o", "fox.mp4").code == 0
    assert len(decoded(tmp_path / "fox.mp4")) == 12


def test_the_seed_is_said_and_travels_in_the_file(painted, tmp_path: Path) -> None:
    done = painted("video", "a fox", "--frames", "4", "--seed", "7", "-o", "fox.mp4")
    assert "seed 7" in done.said
    with av.open(str(tmp_path / "fox.mp4")) as container:
        about = json.loads(container.metadata["comment"])
        assert container.metadata["title"] == "a fox"
    assert (about["prompt"], about["seed"], about["model"], about["size"]) == (
        "a fox",
        7,
        "tiny-video",
        [48, 32],
    )


def test_a_drawn_seed_is_said_too(painted) -> None:
    said = painted("video", "a fox", "--frames", "4", "-o", "fox.y4m").said
    assert " seed " in said


def test_the_prompt_comes_from_a_pipe_or_a_file(fake, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("a fox\n in snow\n")
    told = fake("video", "@prompt.txt", "--dry-run")
    piped = fake("video", "-", "--dry-run", input=b"a fox in snow\n")
    assert json.loads(told.stdout)["prompt"] == json.loads(piped.stdout)["prompt"] == "a fox in snow"


def test_a_dry_run_prints_json_and_makes_nothing(painted, tmp_path: Path) -> None:
    done = painted("video", "a fox", "--seed", "3", "--prompt-at", '1s:"rain"', "--dry-run", "-o", "fox.mp4")
    plan = json.loads(done.out)
    assert (plan["seed"], plan["frames"], plan["prompts"]) == (3, 32, {"1s": "rain"})
    assert plan["output"]["format"] == "mp4"
    assert not list(tmp_path.iterdir())


def test_quiet_says_nothing(fake) -> None:
    done = fake("video", "a fox", "--frames", "4", "-o", "-", "-q")
    assert done.stderr.decode().replace("a library prints to standard output\n", "") == ""


def test_a_pipe_carries_only_frames_whatever_libraries_print(fake, tmp_path: Path) -> None:
    done = fake("video", "a fox", "--frames", "6", "-o", "-")
    assert done.stdout.startswith(b"YUV4MPEG2 W48 H32 F8:1")
    (tmp_path / "fox.y4m").write_bytes(done.stdout)
    assert len(decoded(tmp_path / "fox.y4m")) == 6
    assert b"a library prints" in done.stderr


def test_raw_frames_are_the_pixels_themselves(fake) -> None:
    done = fake(
        "video", "a fox", "--frames", "3", "-o", "-", "-f", "rawvideo", "--pix-fmt", "rgb24", "--scale", "2"
    )
    assert done.stdout == b"".join(bytes([level]) * (96 * 64 * 3) for level in range(3))


@pytest.mark.skipif(
    shutil.which("ffmpeg") is None, reason="ffmpeg is not installed; `make test` installs it as root"
)
def test_ffmpeg_reads_the_pipe(fake, tmp_path: Path) -> None:
    frames = fake("video", "a fox", "--frames", "8", "-o", "-").stdout
    command = ["ffmpeg", "-loglevel", "error", "-i", "-", "out.mkv"]
    subprocess.run(command, input=frames, check=True, cwd=tmp_path, timeout=60)
    assert len(decoded(tmp_path / "out.mkv")) == 8


def test_statistics_are_one_json_line_a_chunk_and_a_summary(painted, tmp_path: Path) -> None:
    assert painted("video", "a fox", "--frames", "10", "-o", "f.nut", "--stats", "s.jsonl").code == 0
    *chunks, last = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert [chunk["frames"] for chunk in chunks] == [4, 4, 2]
    assert set(chunks[0]["stages_s"]) == {"dit", "vae", "encode"}
    assert last["summary"]["frames"] == 10
    assert last["summary"]["stages_s"]["dit"] == pytest.approx(0.03)


def test_a_reader_that_leaves_ends_an_endless_video_quietly(start) -> None:
    for arguments in (["-f", "y4m"], ["-f", "mp4"], ["-f", "rawvideo"], ["-f", "nut"], ["-f", "mjpeg"]):
        process = start("video", "a fox", "--frames", "0", "-o", "-", "-q", *arguments)
        assert process.stdout.read(500)
        process.stdout.close()
        said = process.stderr.read().decode().replace("a library prints to standard output\n", "")
        assert (process.wait(20), said) == (0, "")


def test_ctrl_c_closes_the_file_well(start, tmp_path: Path) -> None:
    process = start("video", "a fox", "--frames", "0", "-o", "fox.mp4", FAKE_DELAY="0.05")
    wait_for_bytes(tmp_path / "fox.mp4", 2000)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    data = (tmp_path / "fox.mp4").read_bytes()
    assert len(decoded(tmp_path / "fox.mp4")) >= 4
    assert data.index(b"moov") < data.index(b"mdat") and b"moof" not in data
    assert not (tmp_path / ".fox.mp4.part").exists()


def test_ctrl_c_twice_leaves_at_once_and_what_was_written_plays(start, tmp_path: Path) -> None:
    process = start("video", "a fox", "--frames", "0", "-o", "fox.mp4", FAKE_STALLS_AT="20")
    wait_for_bytes(tmp_path / "fox.mp4", 2000)
    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    line = process.stderr.readline()
    while b"Ctrl-C again" not in line:
        line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130  # and not after this chunk
    assert decoded(tmp_path / "fox.mp4")


def test_a_crash_keeps_what_was_recorded(start, tmp_path: Path) -> None:
    process = start("video", "a fox", "--frames", "0", "-o", "fox.mp4", FAKE_DELAY="0.02")
    wait_for_bytes(tmp_path / "fox.mp4", 4000)
    process.kill()
    process.wait(20)
    assert len(decoded(tmp_path / "fox.mp4")) >= 8


def test_a_failure_on_the_way_is_one_sentence_exit_1_and_a_playable_file(fake, tmp_path: Path) -> None:
    done = fake("video", "a fox", "-o", "fox.mp4", "-q", env={"FAKE_FAILS_AT": "3"})
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == (
        "streamgen: The decoder ran out of memory; choose a smaller --size."
    )
    assert b"Traceback" not in done.stderr
    assert len(decoded(tmp_path / "fox.mp4")) == 12


def test_a_full_disk_is_one_sentence_and_exit_1(fake) -> None:
    done = fake("video", "a fox", "-o", "/dev/full", "-f", "rawvideo", "-q")
    assert done.returncode == 1
    assert "No space left" in done.stderr.decode().splitlines()[-1]


def test_frames_are_refused_to_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fake_command = [sys.executable, str(Path(__file__).with_name("fake_streamgen.py"))]
    done = subprocess.run(
        [*fake_command, "video", "a fox", "-o", "-"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        timeout=60,
    )
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"terminal" in done.stderr


def test_help_and_version_wait_for_no_heavy_import(fake) -> None:
    code = (
        "import sys; from streamgen.cli.guard import run; run(['video', '--help']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'diffusers', 'transformers', 'numpy', 'av')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0
    assert fake("--version").stdout.startswith(b"streamgen ")
