"""What can be watched: files and networks through `streamgen.frames`, pictures with their times, chunks."""

import math
from collections.abc import Generator, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgen.errors import UsageError
from streamgen.frames.reader import Frame, Reader, read
from streamgen.frames.sampling import Sampler
from streamgen.pipelines.chunk import Chunk

Picture = npt.NDArray[np.uint8]  # [H, W, 3]
Source = str | Path | Reader | Iterable[Any]


def pictures(
    source: Source, fps: float | None, default: float, rate: float | None
) -> Generator[tuple[Picture, float]]:
    """Pictures and the seconds they belong to, at most `fps` of them a second.

    A `Reader` has chosen its frames already; everything else is sampled at `fps`, or at the default.
    """
    wanted = default if fps is None else fps
    if isinstance(source, (str, Path)):
        return _read(read(source, fps=wanted))
    if isinstance(source, Reader):
        return _sampled(_read(source), Sampler(fps))
    if not isinstance(source, Iterable):
        raise UsageError(
            f"A {type(source).__name__} cannot be watched; give a path or an address, an iterable of "
            "(frame, seconds), or one of chunks."
        )
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise UsageError(f"A rate of {rate} frames a second is none; give more than 0.")
    return _sampled(_given(source, rate), Sampler(wanted))


def checked_picture(frame: Any) -> Picture:
    """A frame as everything here expects it."""
    array: Picture = np.asarray(frame)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise UsageError(
            f"A frame of shape {list(array.shape)} and type {array.dtype} came; give uint8 [H, W, 3]."
        )
    return array


def _read(reader: Reader) -> Generator[tuple[Picture, float]]:
    with reader:
        for frame in reader:
            yield frame.picture, frame.time


def _sampled(frames: Iterator[tuple[Picture, float]], sampler: Sampler) -> Generator[tuple[Picture, float]]:
    for frame, seconds in frames:
        if not math.isfinite(seconds):
            raise UsageError(f"A frame came at {seconds} seconds; give the time at which it is shown.")
        if sampler.takes(Fraction(seconds)):
            yield frame, seconds


def _given(source: Iterable[Any], rate: float | None) -> Generator[tuple[Picture, float]]:
    for item in source:
        if isinstance(item, Chunk):
            yield from _of_chunk(item, rate)
        elif isinstance(item, Frame):
            yield item.picture, item.time
        elif isinstance(item, tuple) and len(item) == 2:
            yield checked_picture(item[0]), float(item[1])
        else:
            raise UsageError(
                f"A {type(item).__name__} came from the source; it should give (frame, seconds) or chunks."
            )


def _of_chunk(chunk: Chunk, rate: float | None) -> Generator[tuple[Picture, float]]:
    if rate is None:
        raise UsageError(
            "Chunks carry no clock; say how many of their frames make a second, as in watch(chunks, rate=8)."
        )
    for number, frame in enumerate(chunk.frames):
        yield frame, (chunk.start + number) / rate
