"""Every writer keeps every frame, its size, its rate and its description; a cut recording still plays.

Shapes: T frames, H height, W width.
"""

import io
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from streamgen.errors import UsageError
from streamgen.frames import (
    FORMATS,
    Clip,
    NoVideoError,
    WriteError,
    describe,
    description,
    enlarge,
    open_writer,
)

CONTAINERS = [
    (form.name, pix_fmt)
    for form in FORMATS.values()
    if form.name not in ("png", "rawvideo")
    for pix_fmt in form.pix_fmts
]
RGB = ("rgb24", "bgr24", "rgba")
ABOUT = {"title": "a fox", "comment": '{"seed": 7}'}


def clip_of(frames: np.ndarray, pix_fmt: str | None = None, rate: Fraction = Fraction(8)) -> Clip:
    _, height, width, _ = frames.shape
    return Clip(width, height, rate, pix_fmt, ABOUT)


@pytest.mark.parametrize(("name", "pix_fmt"), CONTAINERS)
def test_every_frame_comes_back_in_every_pixel_format(name, pix_fmt, frames, decode, tmp_path: Path) -> None:
    path = tmp_path / f"clip.{name}"
    with open_writer(path, FORMATS[name], clip_of(frames, pix_fmt)) as writer:
        writer.write(frames[:7])
        writer.write(frames[7:])
    back = decode(path, FORMATS[name].muxer)
    assert back.shape == frames.shape
    if pix_fmt != "gray":
        error = np.abs(back.astype(int) - frames).mean()
        assert error == 0 if pix_fmt in RGB else error < 4


@pytest.mark.parametrize("pix_fmt", FORMATS["rawvideo"].pix_fmts)
def test_raw_video_has_no_byte_too_many(pix_fmt, frames, tmp_path: Path) -> None:
    path = tmp_path / "clip.raw"
    with open_writer(path, FORMATS["rawvideo"], clip_of(frames, pix_fmt)) as writer:
        writer.write(frames)
    bits = av.VideoFormat(pix_fmt, 64, 48).bits_per_pixel
    assert path.stat().st_size == 20 * 64 * 48 * bits // 8
    if pix_fmt == "rgb24":
        assert path.read_bytes() == frames.tobytes()


@pytest.mark.parametrize("rate", [Fraction(8), Fraction(16), Fraction(30000, 1001)])
@pytest.mark.parametrize("name", ["mp4", "nut", "y4m"])
def test_the_rate_is_kept_exactly(name, rate, frames, tmp_path: Path) -> None:
    path = tmp_path / f"clip.{name}"
    with open_writer(path, FORMATS[name], clip_of(frames, rate=rate)) as writer:
        writer.write(frames)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        times = [frame.time for frame in container.decode(stream)]
        assert stream.average_rate == rate
    assert times == pytest.approx([index / float(rate) for index in range(20)], abs=1e-3)


def test_a_finished_mp4_is_tagged_bt709_described_and_starts_fast(frames, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    with open_writer(path, FORMATS["mp4"], clip_of(frames)) as writer:
        writer.write(frames)
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        assert (context.colorspace, context.color_primaries, context.color_trc, context.color_range) == (
            1,
            1,
            1,
            1,
        )
        assert container.metadata["title"] == "a fox"
        assert json.loads(container.metadata["comment"]) == {"seed": 7}
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat") and b"moof" not in data
    assert [entry.name for entry in tmp_path.iterdir()] == ["clip.mp4"]


def test_a_finished_mp4_can_be_described_further_without_touching_its_frames(
    frames, decode, tmp_path: Path
) -> None:
    path = tmp_path / "clip.mp4"
    with open_writer(path, FORMATS["mp4"], clip_of(frames)) as writer:
        writer.write(frames)
    before = decode(path)
    long = json.dumps({"events": ["snow ❄"] * 20_000}, ensure_ascii=False)
    describe(path, {"comment": long})
    assert description(path)["title"] == "a fox"
    assert description(path)["comment"] == long
    assert (np.asarray(decode(path)) == np.asarray(before)).all()
    (tmp_path / "no.mp4").write_text("#EXTM3U")
    with pytest.raises(NoVideoError, match="no mp4 that can be read"):
        description(tmp_path / "no.mp4")


def test_a_killed_recording_plays_up_to_its_last_second(decode, tmp_path: Path) -> None:
    code = (
        "import os, sys, numpy as np; from fractions import Fraction; from pathlib import Path\n"
        "from streamgen.frames import *\n"
        "writer = open_writer(Path(sys.argv[1]), FORMATS['mp4'], Clip(64, 48, Fraction(8)))\n"
        "noise = np.random.default_rng(0).integers(0, 255, (48, 48, 64, 3), dtype=np.uint8)\n"
        "writer.write(noise); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "cut.mp4")], capture_output=True, timeout=60)
    assert len(decode(tmp_path / "cut.mp4")) >= 48 - 2 * 8


@pytest.mark.parametrize("size", [(47, 63), (48, 63), (47, 64), (1, 1)])
def test_odd_sizes_are_padded_in_mp4_by_repeating_the_edge_and_kept_elsewhere(
    size, frames, decode, tmp_path: Path
) -> None:
    height, width = size
    odd = frames[:, :height, :width]
    for name in ("mp4", "y4m", "nut", "mjpeg"):
        with open_writer(tmp_path / f"clip.{name}", FORMATS[name], clip_of(odd)) as writer:
            writer.write(odd)
    assert decode(tmp_path / "clip.mp4").shape[1:3] == (height + height % 2, width + width % 2)
    for name in ("y4m", "nut", "mjpeg"):
        assert decode(tmp_path / f"clip.{name}", FORMATS[name].muxer).shape[1:3] == size


def test_pngs_are_numbered_exact_and_described(frames, tmp_path: Path) -> None:
    with open_writer(tmp_path / "out" / "pictures", FORMATS["png"], clip_of(frames)) as writer:
        writer.write(frames[:3])
    folder = tmp_path / "out" / "pictures"
    assert sorted(path.name for path in folder.glob("*.png")) == [
        f"frame_{index:06d}.png" for index in range(3)
    ]
    assert np.array_equal(np.asarray(Image.open(folder / "frame_000002.png")), frames[2])
    assert json.loads((folder / "clip.json").read_text())["title"] == "a fox"


@pytest.mark.parametrize("name", ["mp4", "y4m", "rawvideo", "nut", "mjpeg"])
def test_a_pipe_that_cannot_seek_carries_every_format(name, frames, decode, tmp_path: Path) -> None:
    class Pipe:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> int:
            taken = bytes(data[: 1 << 12])  # a pipe may take less than it was given
            self.data += taken
            return len(taken)

        def flush(self) -> None: ...

    pipe = Pipe()
    with open_writer(pipe, FORMATS[name], clip_of(frames)) as writer:
        writer.write(frames)
    if name == "rawvideo":
        assert pipe.data == frames.tobytes()
        return
    (tmp_path / "clip").write_bytes(pipe.data)
    assert len(decode(tmp_path / "clip", FORMATS[name].muxer)) == 20


@pytest.mark.parametrize("name", ["mp4", "y4m", "rawvideo", "nut", "mjpeg"])
def test_a_broken_pipe_is_passed_on_as_such_and_closing_is_quiet(name, frames) -> None:
    class Broken(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    writer = open_writer(Broken(), FORMATS[name], clip_of(frames))
    with pytest.raises(BrokenPipeError):
        for _ in range(20):
            writer.write(frames)
    writer.close()


def test_a_full_disk_is_a_sentence(frames) -> None:
    writer = open_writer(Path("/dev/full"), FORMATS["rawvideo"], clip_of(frames))
    with pytest.raises(WriteError, match="/dev/full.*No space left"):
        for _ in range(50):
            writer.write(frames)
        writer.close()


def test_a_folder_that_is_not_there_is_a_sentence(frames, tmp_path: Path) -> None:
    for name in ("mp4", "nut"):
        with pytest.raises(WriteError, match="after 0 frames: No such file"):
            open_writer(tmp_path / "no" / "clip", FORMATS[name], clip_of(frames)).write(frames)
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written: Not a directory"):
        open_writer(tmp_path / "file" / "pictures", FORMATS["png"], clip_of(frames))


def test_wrong_frames_are_refused(frames, tmp_path: Path) -> None:
    with open_writer(tmp_path / "clip.nut", FORMATS["nut"], clip_of(frames)) as writer:
        with pytest.raises(ValueError, match="one size"):
            writer.write(frames[:, :10])
        with pytest.raises(ValueError, match="uint8"):
            writer.write(frames.astype(np.float32))
    with pytest.raises(ValueError, match="no pixels"):
        Clip(0, 48, Fraction(8))
    with pytest.raises(ValueError, match="positive rate"):
        Clip(64, 48, Fraction(0))


def test_pngs_cannot_go_to_a_pipe(frames) -> None:
    with pytest.raises(UsageError, match="give a folder"):
        open_writer(io.BytesIO(), FORMATS["png"], clip_of(frames))


def test_closing_twice_is_the_same_as_once(frames, decode, tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "clip.mp4", FORMATS["mp4"], clip_of(frames))
    writer.write(frames)
    writer.close()
    writer.close()
    assert len(decode(tmp_path / "clip.mp4")) == 20


def test_enlarging_repeats_pixels(frames) -> None:
    large = enlarge(frames, 3)
    assert large.shape == (20, 144, 192, 3)
    assert np.array_equal(large[:, 1::3, 2::3], frames)
    assert enlarge(frames, 1) is frames
