"""What `streamgen video` was asked, checked and settled before anything heavy is imported."""

import math
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamgen.cli import backend
from streamgen.cli.output import Output, check_writable, choose_output
from streamgen.cli.prompts import read_prompt, read_schedule
from streamgen.errors import UsageError

if TYPE_CHECKING:
    from streamgen.pipelines.settings import VideoSettings

DEFAULT_SECONDS = 4.0
DTYPES = {"fp32": "float32", "float32": "float32", "bf16": "bfloat16", "bfloat16": "bfloat16"}
_NUMBER = r"[0-9]{1,18}"
_DEVICE = re.compile(rf"cpu|mps|cuda(:{_NUMBER})?")
_SIZE = re.compile(r"([0-9]{1,6})[xX]([0-9]{1,6})")


@dataclass(frozen=True)
class Asked:
    """The command line as it was typed."""

    prompt: str | None
    prompt_at: tuple[str, ...]
    frames: int | None
    seconds: float | None
    size: str | None
    seed: int | None
    model: str
    steps: int | None
    window: int | None
    sink: int | None
    attention: str
    dtype: str | None
    device: str | None
    output: str | None
    form: str | None
    pix_fmt: str | None
    scale: int
    overwrite: bool
    keep: bool
    stats: str | None
    dry_run: bool
    quiet: bool


@dataclass(frozen=True)
class Request:
    """A video that can be made: every default filled in, every contradiction refused."""

    prompt: str
    prompts: dict[float, str]
    frames: int | None  # None never ends
    size: tuple[int, int]
    seed: int
    model: str
    folder: Path
    settings: "VideoSettings"
    steps: int
    window: int | None  # None remembers everything
    sink: int
    attention: str
    dtype: str | None  # None and None: to be settled by what the machine has
    device: str | None
    output: Output
    stats: str | None
    quiet: bool


def resolve(asked: Asked) -> Request:
    """Check everything that can be checked without computing, cheapest first."""
    prompt = read_prompt(asked.prompt)
    _check_length(asked.frames, asked.seconds)
    size = parse_size(asked.size)
    for name, value, least in (
        ("--steps", asked.steps, 1),
        ("--window", asked.window, 1),
        ("--sink", asked.sink, 0),
        ("--seed", asked.seed, 0),
    ):
        check_least(name, value, least)
    dtype, device = parse_dtype(asked.dtype), parse_device(asked.device)
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    output = choose_output(asked.output or f"video-{seed}.mp4", asked.form, asked.pix_fmt, asked.scale)
    folder = backend.folder_of(asked.model)
    settings = backend.settings_of(folder)
    frames = _length(asked.frames, asked.seconds, settings.fps)
    prompts = read_schedule(list(asked.prompt_at), None if frames is None else frames / settings.fps)
    if not asked.dry_run:
        check_writable(output, asked.overwrite, asked.keep)
        _check_stats(asked.stats, output)
    return Request(
        prompt=prompt,
        prompts=prompts,
        frames=frames,
        size=size or settings.size,
        seed=seed,
        model=asked.model,
        folder=folder,
        settings=settings,
        steps=len(settings.steps) if asked.steps is None else asked.steps,
        window=settings.window if asked.window is None else asked.window,
        sink=settings.sink if asked.sink is None else asked.sink,
        attention=asked.attention,
        dtype=dtype,
        device=device,
        output=output,
        stats=asked.stats,
        quiet=asked.quiet,
    )


def parse_size(asked: str | None) -> tuple[int, int] | None:
    """`832x480` -> (832, 480); whether the model can make it is the pipeline's to say."""
    if asked is None:
        return None
    match = _SIZE.fullmatch(asked.strip())
    width, height = (int(match[1]), int(match[2])) if match else (0, 0)
    if not width or not height:
        raise UsageError(f"--size {asked!r} is not WIDTHxHEIGHT in pixels, such as 64x64.")
    return width, height


def whole_numbers(asked: Sequence[str]) -> tuple[int, ...] | None:
    """`["3", " 2"]` -> (3, 2); None where anything else is among them."""
    parts = [part.strip() for part in asked]
    return tuple(map(int, parts)) if all(re.fullmatch(_NUMBER, part) for part in parts) else None


def parse_dtype(asked: str | None) -> str | None:
    """torch's name of a dtype."""
    if asked is None:
        return None
    if asked not in DTYPES:
        raise UsageError(f"There is no dtype {asked!r} here; choose fp32 or bf16.")
    return DTYPES[asked]


def parse_device(asked: str | None) -> str | None:
    """A device that torch could have; whether it is there is checked when torch is loaded."""
    if asked is not None and not _DEVICE.fullmatch(asked):
        raise UsageError(f"There is no device {asked!r}; choose cpu, cuda, cuda:NUMBER or mps.")
    return asked


def _check_length(frames: int | None, seconds: float | None) -> None:
    if frames is not None and seconds is not None:
        raise UsageError("--frames and --seconds both say how long the video is; give one of them.")
    if frames is not None and frames < 0:
        raise UsageError(
            f"--frames {frames} is less than nothing; give a number, or 0 for a video that never ends."
        )
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"--seconds {seconds:g} is no length; give more than 0, or --frames 0 for no end.")


def _length(frames: int | None, seconds: float | None, fps: float) -> int | None:
    if frames is not None:
        return frames or None
    return max(1, round((DEFAULT_SECONDS if seconds is None else seconds) * fps))


def check_least(name: str, value: int | None, least: int) -> None:
    """Refuse a number that is too small, or that no 64 bits hold."""
    if value is not None and not least <= value < 2**63:
        raise UsageError(f"{name} {value} is out of range; it is a whole number from {least} to 2^63 - 1.")


def _check_stats(stats: str | None, output: Output) -> None:
    if stats is None:
        return
    if stats == "-":
        if output.piped:
            raise UsageError("--stats - and -o - both want standard output; send one of them to a file.")
        return
    path = Path(stats)
    if not output.piped and path.absolute() == Path(output.target).absolute():
        raise UsageError(f"--stats and -o both name {path}; give the statistics a file of their own.")
    if (
        path.is_dir()
        or not path.parent.is_dir()
        or not os.access(path if path.exists() else path.parent, os.W_OK)
    ):
        raise UsageError(
            f"The statistics file {path} cannot be written; name a file in a folder that is there."
        )
