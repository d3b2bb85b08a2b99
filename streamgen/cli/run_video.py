"""Make the video that was asked for, or say what making it would take.

Shapes: T frames, H height, W width.
"""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from streamgen import __version__
from streamgen.cli import backend
from streamgen.cli.interrupt import Interrupt
from streamgen.cli.output import PIPE, reserved_stdout
from streamgen.cli.progress import StreamProgress
from streamgen.cli.request import Request
from streamgen.cli.say import say
from streamgen.frames import Clip, FrameWriter, enlarge, open_writer
from streamgen.runtime.metrics import StreamMeter

if TYPE_CHECKING:
    from streamgen.pipelines.video import Chunk

DONE, INTERRUPTED = 0, 130


def dry(request: Request) -> int:
    """Print the settled request and its memory as JSON."""
    request = backend.placed(request)
    record = {**described(request), **backend.rehearsal_of(request), "output": output_words(request)}
    print(json.dumps(record, indent=2, ensure_ascii=False))
    return DONE


def make(request: Request) -> int:
    """Stream chunks into the writer until the video ends or somebody stops it."""
    meter = StreamMeter(request.settings.fps, request.frames)
    with (
        reserved_stdout() as stdout,
        _lines(request.stats, stdout) as lines,
        StreamProgress(meter, request.quiet) as progress,
    ):
        request = backend.placed(request)
        stopped = _record(request, request.output.place(stdout), meter, progress, lines)
        _log(lines, {"summary": meter.summary(), "request": described(request)})
    if not request.quiet:
        say(ending(request, meter))
    return INTERRUPTED if stopped else DONE


def _record(
    request: Request,
    target: Path | BinaryIO,
    meter: StreamMeter,
    progress: StreamProgress,
    lines: TextIO | None,
) -> bool:
    """Write every chunk as it comes; whether somebody stopped it before its end."""
    chunks = backend.chunks(request)
    first = next(chunks)
    meter.load = meter.wall - sum(first.timing.values())
    if not request.quiet:
        say(headline(request, first))
    clip = _clip(request, first)
    with open_writer(target, request.output.form, clip) as writer, Interrupt(request.quiet) as stop:
        for chunk in chain([first], chunks):
            _log(lines, _write(chunk, writer, request, meter))
            progress.update()
            if stop.asked:
                break
    return stop.asked


def described(request: Request) -> dict[str, object]:
    """What would make the same video again; it also travels in the file."""
    return {
        "prompt": request.prompt,
        "prompts": {f"{at:g}s": text for at, text in request.prompts.items()},
        "seed": request.seed,
        "model": request.model,
        "frames": request.frames,
        "fps": request.settings.fps,
        "size": list(request.size),
        "steps": request.steps,
        "window": request.window,
        "sink": request.sink,
        "attention": request.attention,
        "dtype": request.dtype,
        "device": request.device,
        "streamgen": __version__,
    }


def output_words(request: Request) -> dict[str, object]:
    """Where the frames go and how they are stored."""
    output = request.output
    return {
        "target": output.target,
        "format": output.form.name,
        "pix_fmt": output.pix_fmt,
        "scale": output.scale,
    }


def headline(request: Request, first: "Chunk") -> str:
    """One line with the first frame; the seed is in it, so that any video can be made again."""
    _, height, width, _ = first.frames.shape
    length = "no end" if request.frames is None else f"{request.frames} frames"
    return (
        f"{request.model}, {width}x{height}, {length} at {request.settings.fps:g} fps, seed {request.seed}."
    )


def ending(request: Request, meter: StreamMeter) -> str:
    """One line after the last frame: what was written, how fast, and what that includes."""
    where = "standard output" if request.output.piped else request.output.target
    length = f"{meter.frames} frames, {meter.frames / meter.fps:.1f} s of video"
    return f"{where}: {length} in {meter.wall:.1f} s, loading included."


def _clip(request: Request, first: "Chunk") -> Clip:
    _, height, width, _ = first.frames.shape
    return Clip(
        width=width * request.output.scale,
        height=height * request.output.scale,
        rate=Fraction(request.settings.fps).limit_denominator(1001),
        pix_fmt=request.output.pix_fmt,
        metadata={"title": request.prompt, "comment": json.dumps(described(request), ensure_ascii=False)},
    )


def _write(chunk: "Chunk", writer: FrameWriter, request: Request, meter: StreamMeter) -> dict[str, object]:
    began = time.perf_counter()
    writer.write(enlarge(chunk.frames, request.output.scale))
    stages = {**chunk.timing, "encode": time.perf_counter() - began}
    meter.add(len(chunk.frames), stages)
    return {
        "chunk": chunk.index,
        "frames": len(chunk.frames),
        "start_s": round(chunk.start / meter.fps, 4),
        "stages_s": {name: round(seconds, 6) for name, seconds in stages.items()},
        "frames_per_s": round(meter.rate, 3),
        "elapsed_s": round(meter.wall, 4),
    }


def _lines(stats: str | None, stdout: BinaryIO) -> AbstractContextManager[TextIO | None]:
    if stats is None:
        return nullcontext()
    if stats == PIPE:
        return nullcontext(TextIOWrapper(stdout, encoding="utf-8", write_through=True))
    return Path(stats).open("w", encoding="utf-8")


def _log(lines: TextIO | None, record: dict[str, object]) -> None:
    if lines:
        print(json.dumps(record, ensure_ascii=False), file=lines, flush=True)
