"""What is read: every frame that was asked for, at its own time, the right way up, in its colours.

Shapes: H height, W width.
"""

import io
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from streamgen.errors import UsageError
from streamgen.frames import FORMATS, Clip, open_writer, read
from tests.frames import clips

VARIABLE = [Fraction(ms, 1000) for ms in (0, 33, 66, 200, 210, 500, 900)]
TURNS = {  # display matrices (a b u, c d v, x y w) and what they do to a picture
    "as it is": ((1, 0, 0, 1), lambda picture: picture),
    "a quarter left": ((0, -1, 1, 0), lambda picture: np.rot90(picture)),
    "half": ((-1, 0, 0, -1), lambda picture: np.rot90(picture, 2)),
    "a quarter right": ((0, 1, -1, 0), lambda picture: np.rot90(picture, -1)),
    "mirrored": ((-1, 0, 0, 1), lambda picture: picture[:, ::-1]),
    "upside down": ((1, 0, 0, -1), lambda picture: picture[::-1]),
    "mirrored, a quarter right": ((0, 1, 1, 0), lambda picture: picture.transpose(1, 0, 2)),
    "mirrored, a quarter left": ((0, -1, -1, 0), lambda picture: np.rot90(picture, 2).transpose(1, 0, 2)),
}


def seen(source: object, **options: object) -> tuple[list[float], list[int]]:
    """Times and numbers of the frames of a clip of numbered pictures."""
    frames = list(read(source, **options))
    return [frame.time for frame in frames], [clips.number_of(frame.picture) for frame in frames]


def near(one: np.ndarray, other: np.ndarray, error: float = 6) -> bool:
    return one.shape == other.shape and float(np.abs(one.astype(int) - other).mean()) < error


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "libx264"),
        ("a.mkv", "libx264"),
        ("a.ts", "libx264"),
        ("a.avi", "mpeg4"),
        ("a.webm", "libvpx"),
    ],
)
def test_every_frame_comes_once_at_its_time_from_every_container(
    name: str, codec: str, tmp_path: Path
) -> None:
    times, numbers = seen(clips.write(tmp_path / name, clips.numbered(12), codec=codec))
    assert numbers == list(range(12))
    assert times == pytest.approx([index / 10 for index in range(12)], abs=5e-4)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_times_of_a_variable_rate_are_those_of_the_stamps(name: str, tmp_path: Path) -> None:
    path = clips.write(
        tmp_path / name, clips.numbered(7), VARIABLE, rate=30, base=Fraction(1, 1000), b_frames=0
    )
    assert seen(path) == ([float(time) for time in VARIABLE], list(range(7)))


def test_time_0_is_where_the_first_of_sound_and_picture_begins(tmp_path: Path) -> None:
    late = [Fraction(1, 2) + Fraction(index, 10) for index in range(5)]
    path = clips.write(tmp_path / "a.mkv", clips.numbered(5), late, sound=True, b_frames=0)
    assert seen(path)[0][0] == pytest.approx(0.5, abs=0.2)  # the sound's encoder may begin a little early
    alone = clips.write(tmp_path / "b.ts", clips.numbered(5), late, b_frames=0)
    assert seen(alone)[0] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_frames_without_stamps_follow_the_nominal_rate(tmp_path: Path) -> None:
    path = clips.write(tmp_path / "a.h264", clips.numbered(6), rate=25, form="h264", b_frames=0)
    times, numbers = seen(path)
    assert (times, numbers) == ([0.0, 0.04, 0.08, 0.12, 0.16, 0.2], list(range(6)))


@pytest.mark.parametrize("name", TURNS)
def test_a_display_matrix_is_applied(name: str, tmp_path: Path) -> None:
    (a, b, c, d), turn = TURNS[name]
    one = 1 << 16
    matrix = (a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30)
    path = clips.write(tmp_path / "a.mp4", [clips.corners()] * 2, matrix=matrix, pix_fmt="yuv444p")
    assert all(near(frame.picture, turn(clips.corners())) for frame in read(path))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_turned_as_its_exif_data_say(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = orientation
    Image.fromarray(clips.corners()).save(tmp_path / "photo.jpg", exif=exif, quality=95)
    [frame] = read(tmp_path / "photo.jpg")
    assert frame.time == 0
    expected = ImageOps.exif_transpose(Image.open(tmp_path / "photo.jpg"))
    assert np.array_equal(frame.picture, np.asarray(expected))


def test_an_animation_is_a_video(tmp_path: Path) -> None:
    pages = [Image.fromarray(picture) for picture in clips.numbered(3)]
    for name in ("a.gif", "a.webp"):
        pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:], duration=300, lossless=True)
        assert seen(tmp_path / name) == (pytest.approx([0.0, 0.3, 0.6]), [0, 1, 2])


@pytest.mark.parametrize("height", [32, 720])
@pytest.mark.parametrize("name", ["y4m", "mp4", "nut"])
def test_what_a_writer_wrote_comes_back_in_its_colours(name: str, height: int, tmp_path: Path) -> None:
    picture = np.kron(clips.corners(), np.ones((height // 32, height // 32, 1), np.uint8))
    clip = Clip(picture.shape[1], picture.shape[0], Fraction(8))
    with open_writer(tmp_path / f"a.{name}", FORMATS[name], clip) as writer:
        writer.write(np.stack([picture] * 2))
    frames = list(read(tmp_path / f"a.{name}"))
    assert [frame.time for frame in frames] == [0.0, 0.125]
    assert all(near(frame.picture, picture, 3) for frame in frames)


def test_for_each_time_asked_for_the_first_frame_at_or_after_it_is_taken_once(tmp_path: Path) -> None:
    path = clips.write(
        tmp_path / "a.mp4", clips.numbered(7), VARIABLE, rate=30, base=Fraction(1, 1000), b_frames=0
    )
    assert seen(path, fps=10)[0] == [0.0, 0.2, 0.5, 0.9]  # nothing is shown at or after .1 before .2
    assert seen(path, fps=5)[0] == [0.0, 0.2, 0.5, 0.9]  # .5 stands for .4, .9 for .8; nothing for .6
    assert seen(path, fps=2)[0] == [0.0, 0.5]
    assert seen(path, fps=1000)[0] == [float(time) for time in VARIABLE]


def test_rounded_stamps_lose_no_frame(tmp_path: Path) -> None:
    path = clips.write(tmp_path / "a.mkv", clips.numbered(30), rate=30)  # in milliseconds: 33, 67, 100
    assert seen(path, fps=30)[1] == list(range(30))
    assert seen(path, fps=7.5)[1] == [0, 4, 8, 12, 16, 20, 24, 28]


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.avi"])
@pytest.mark.parametrize(("start", "end"), [(0.3, 1.4), (1.0, None), (2.05, 2.4), (0, 0.05), (9, None)])
def test_a_part_gives_the_frames_of_the_whole(
    name: str, start: float, end: float | None, tmp_path: Path
) -> None:
    codec = "mpeg4" if name == "a.avi" else "libx264"
    path = clips.write(tmp_path / name, clips.numbered(30), codec=codec)
    whole = [frame for frame in read(path, fps=4) if start <= frame.time < (end or 99)]
    part = list(read(path, fps=4, start=start, end=end))
    assert [frame.time for frame in part] == [frame.time for frame in whole]
    assert all(np.array_equal(one.picture, other.picture) for one, other in zip(part, whole, strict=True))


def test_a_pipe_and_an_open_file_are_read(tmp_path: Path) -> None:
    path = clips.write(tmp_path / "a.mkv", clips.numbered(6))
    with path.open("rb") as file:
        assert seen(file)[1] == list(range(6))
    assert seen(io.BytesIO(path.read_bytes()))[1] == list(range(6))
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cp", str(path), str(tmp_path / "pipe")]):
        assert seen(tmp_path / "pipe")[1] == list(range(6))
    code = "from streamgen.frames import read; print(*[frame.time for frame in read('-')])"
    done = subprocess.run(
        [sys.executable, "-c", code], input=path.read_bytes(), capture_output=True, timeout=60
    )
    assert done.stdout.split() == [b"0.0", b"0.1", b"0.2", b"0.3", b"0.4", b"0.5"], done.stderr


def test_names_that_ffmpeg_would_read_as_something_else_are_files(tmp_path: Path) -> None:
    for name in ("take:2.mp4", "100%d.mp4", "-i.mp4", "ä b.mp4"):
        assert len(list(read(clips.write(tmp_path / name, clips.numbered(2))))) == 2


def test_a_generated_video_needs_no_file() -> None:
    frames = list(read("lavfi:testsrc=duration=1:rate=5:size=32x24"))
    assert [frame.time for frame in frames] == [0.0, 0.2, 0.4, 0.6, 0.8]
    assert frames[0].picture.shape == (24, 32, 3)


def test_the_duration_is_known_before_the_frames_are(tmp_path: Path) -> None:
    with read(clips.write(tmp_path / "a.mp4", clips.numbered(20))) as reader:
        assert reader.ready().duration == 2.0
        assert len(list(reader)) == 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fps": 0}, "more than 0"),
        ({"fps": float("nan")}, "more than 0"),
        ({"start": -1}, "0 or more"),
        ({"start": 2, "end": 2}, "later end"),
        ({"timeout": 0}, "more than 0"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    options: dict[str, float], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        read(tmp_path / "nothing.mp4", **options)
