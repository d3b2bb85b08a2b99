"""Good frames of a damaged video are kept, the error names the place; what is no video is one sentence."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamgen.errors import UsageError
from streamgen.frames import DamagedVideoError, Frame, NoVideoError, read
from tests.frames import clips


def until_error(path: Path, kind: type[Exception], **options: object) -> tuple[list[Frame], Exception]:
    frames: list[Frame] = []
    with pytest.raises(kind) as caught:
        frames.extend(read(path, **options))  # extend keeps what came before the error
    return frames, caught.value


@pytest.fixture
def noisy(tmp_path: Path) -> list[np.ndarray]:
    """Pictures that take bytes to store."""
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(24)]


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {"movflags": "faststart"}),
        ("f.mp4", "libx264", {"movflags": "frag_keyframe+empty_moov+default_base_moof"}),
        ("a.mkv", "libx264", {}),
        ("a.avi", "mpeg4", {}),
    ],
)
def test_a_truncated_video_gives_its_good_frames_and_then_the_place(
    name: str, codec: str, options: dict[str, str], noisy: list[np.ndarray], tmp_path: Path
) -> None:
    whole = clips.write(tmp_path / name, noisy, codec=codec, options=options)
    truth = [frame.picture for frame in read(whole)]
    frames, error = until_error(clips.cut(whole, 0.7), DamagedVideoError)
    assert 8 < len(frames) < 20
    assert error.frames == len(frames)
    assert error.time == frames[-1].time
    assert f"{len(frames)} good frames came before that" in str(error)
    assert " s" in str(error) and f"cut-{name}" in str(error)
    for frame in frames:
        assert np.array_equal(frame.picture, truth[round(frame.time * 10)])


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "libx264"), ("a.ts", "libx264"), ("a.mpg", "mpeg2video"), ("a.avi", "mpeg4")],
)
def test_rubbish_in_the_middle_is_found_or_stepped_over(
    name: str, codec: str, noisy: list[np.ndarray], tmp_path: Path
) -> None:
    rate = 25 if codec == "mpeg2video" else 10
    whole = clips.write(
        tmp_path / name, noisy, codec=codec, rate=rate, options={"movflags": "faststart"}, key=6, b_frames=0
    )
    truth = [frame.picture for frame in read(whole)]
    frames, error = until_error(clips.broken(whole, 0.5, 3000), DamagedVideoError)
    assert 4 <= len(frames) < 20
    assert " s are broken" in str(error)
    for frame in frames[:-1]:  # H.264 may notice a damage inside a picture only at the next one
        assert np.array_equal(frame.picture, truth[round(frame.time * rate)])
    with read(clips.broken(whole, 0.5, 3000), skip_damage=True) as reader:
        beyond = list(reader)
    assert len(beyond) > len(frames) and beyond[-1].time > frames[-1].time + 2 / rate


def test_the_end_of_a_sound_track_is_no_damage(tmp_path: Path) -> None:
    path = clips.write(tmp_path / "a.mp4", clips.numbered(5), sound=True)  # the sound lasts longer
    assert len(list(read(path))) == 5
    path = clips.write(tmp_path / "b.mp4", clips.numbered(30), sound=True)  # the picture lasts longer
    assert len(list(read(path))) == 30


def files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Names of things that are no video, and what is said of each."""
    (folder / "empty.mp4").touch()
    (folder / "words.mp4").write_text("this is no video\n" * 100)
    clips.cut(clips.write(folder / "late.mp4", clips.numbered(9)), 0.5)  # its index was at the end
    (folder / "noise.mkv").write_bytes(bytes(np.random.default_rng(1).integers(0, 256, 9000, np.uint8)))
    Image.fromarray(clips.corners()).save(folder / "whole.png")
    clips.cut(folder / "whole.png", 0.5)
    clips.write(folder / "none.mkv", clips.numbered(1), sound=True)
    return {
        "missing": (folder / "missing.mp4", "there is no such file"),
        "empty": (folder / "empty.mp4", "is empty"),
        "words": (folder / "words.mp4", "is no video"),
        "noise": (folder / "noise.mkv", "is no video"),
        "index": (folder / "cut-late.mp4", "may be cut off"),
        "folder": (folder, "is a folder"),
        "picture": (folder / "cut-whole.png", "damaged"),
    }


@pytest.mark.parametrize("what", ["missing", "empty", "words", "noise", "index", "folder", "picture"])
def test_what_is_no_video_is_one_sentence_about_it(what: str, tmp_path: Path) -> None:
    path, words = files(tmp_path)[what]
    with pytest.raises(NoVideoError, match=words) as caught:
        read(path).ready()
    assert path.name in str(caught.value) and "\n" not in str(caught.value)
    assert isinstance(caught.value, UsageError)


def test_sound_alone_is_no_video_even_with_a_cover(tmp_path: Path) -> None:
    ogg = tmp_path / "a.wav"
    ogg.write_bytes(
        b"RIFF" + (36 + 800).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
        + b"\x01\x00\x01\x00" + (8000).to_bytes(4, "little") + (16000).to_bytes(4, "little")
        + b"\x02\x00\x10\x00data" + (800).to_bytes(4, "little") + bytes(800)
    )  # fmt: skip
    with pytest.raises(NoVideoError, match="only audio"):
        read(ogg).ready()


def test_an_empty_pipe_and_a_terminal_are_sentences() -> None:
    code = (
        "from streamgen.frames import read, NoVideoError\n"
        "try: read('-').ready()\nexcept NoVideoError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, timeout=60)
    assert done.stdout.startswith(b"standard input ") and done.stderr == b""


def test_words_that_name_no_kind_of_source_are_refused() -> None:
    with pytest.raises(UsageError, match="do not come by gopher://"):
        read("gopher://host/video")
    with pytest.raises(NoVideoError, match="There is no camera /dev/video97"):
        read("cam:97")
