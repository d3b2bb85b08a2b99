"""Small clips whose frames can be told apart, written with PyAV.

Shapes: T frames, H height, W width.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

HEIGHT, WIDTH = 32, 48
RED, GREEN, BLUE, BLACK = (200, 30, 30), (20, 180, 60), (30, 40, 210), (0, 0, 0)


def corners() -> np.ndarray:
    """uint8 [H, W, 3] with a colour of its own in each corner: red green, blue black."""
    picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture[:16, :24], picture[:16, 24:], picture[16:, :24] = RED, GREEN, BLUE
    return picture


def numbered(count: int) -> list[np.ndarray]:
    """Grey pictures that get lighter by 4 a frame."""
    return [np.full((HEIGHT, WIDTH, 3), 16 + 4 * (index % 50), np.uint8) for index in range(count)]


def number_of(picture: np.ndarray) -> int:
    """Which of the numbered pictures this one is."""
    return round((float(picture.mean()) - 16) / 4)


def write(
    path: Path,
    pictures: Sequence[np.ndarray],
    times: Sequence[Fraction] | None = None,
    rate: int = 10,
    codec: str = "libx264",
    base: Fraction | None = None,
    matrix: Sequence[int] | None = None,
    sound: bool = False,
    key: int = 5,
    b_frames: int = 2,
    options: dict[str, str] | None = None,
    form: str | None = None,
    pix_fmt: str = "yuv420p",
) -> Path:
    """Write pictures at times (seconds; regular by default) and return the path."""
    base = base or Fraction(1, rate)
    with av.open(str(path), "w", format=form, options=options or {}) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = base
        stream.codec_context.gop_size = key
        stream.codec_context.bit_rate = 4_000_000
        if codec == "libx264":
            stream.codec_context.options = {"crf": "4", "bf": str(b_frames), "preset": "fast"}
        if matrix is not None:
            stream.set_display_matrix(matrix)
        track = container.add_stream("aac", rate=8000, layout="mono") if sound else None
        if track is not None:
            _hum(container, track)
        for index, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=pix_fmt)
            time = Fraction(index, rate) if times is None else times[index]
            frame.pts, frame.time_base = round(time / base), base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def _hum(container: av.container.OutputContainer, track: av.AudioStream) -> None:
    for index in range(8):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 8000, index * 1024, Fraction(1, 8000)
        container.mux(track.encode(frame))
    container.mux(track.encode(None))


def broken(path: Path, at: float, size: int = 400) -> Path:
    """A copy with `size` bytes of rubbish at a share of the file."""
    data = bytearray(path.read_bytes())
    first = int(len(data) * at)
    data[first : first + size] = b"\xa5" * size
    copy = path.with_name(f"broken-{path.name}")
    copy.write_bytes(data)
    return copy


def cut(path: Path, at: float) -> Path:
    """A copy that ends at a share of the file."""
    data = path.read_bytes()
    copy = path.with_name(f"cut-{path.name}")
    copy.write_bytes(data[: int(len(data) * at)])
    return copy
