"""Where the command meets the pipelines; everything heavy is imported in here, when it is needed."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamgen.cli.facts import refuse_broken
from streamgen.errors import UsageError

LONGEST = 300  # characters of a refusal; some of them print lists

if TYPE_CHECKING:
    import torch

    from streamgen.cli.request import Request
    from streamgen.pipelines.settings import VideoSettings
    from streamgen.pipelines.video import Chunk


def folder_of(model: str) -> Path:
    """The folder of a model, with files that can be read; nothing is downloaded for it."""
    from streamgen.models.registry import resolve

    folder = resolve(model)
    refuse_broken(folder)
    return folder


def settings_of(folder: Path) -> "VideoSettings":
    """What the model's own streamgen.json says."""
    from streamgen.pipelines.settings import VideoSettings

    return VideoSettings.load(folder)


def placed(request: "Request") -> "Request":
    """The request with its device and dtype settled, which needs torch."""
    quieten_libraries()
    device = pick_device(request.device)
    return replace(request, device=device, dtype=request.dtype or usual_dtype(device))


def rehearsal_of(request: "Request") -> dict[str, object]:
    """What a placed request settles to and the bytes it would hold, without holding them."""
    from streamgen.cli.rehearsal import rehearse

    with refusals(request.attention):
        return rehearse(request, dtype_of(request))


def chunks(request: "Request") -> Iterator["Chunk"]:
    """Load the model of a placed request and stream."""
    from streamgen.pipelines.video import VideoPipeline

    with refusals(request.attention):
        pipeline = VideoPipeline.from_pretrained(
            request.folder,
            device=request.device or "cpu",
            dtype=dtype_of(request),
            attention=request.attention,
        )
        stream = pipeline.stream(
            request.prompt,
            frames=request.frames,
            seed=request.seed,
            size=request.size,
            steps=request.steps,
            window=request.window,
            sink=request.sink,
            prompt_at=tuple(request.prompts.items()),
        )
        first = next(stream)
    yield first
    yield from stream


@contextmanager
def refusals(attention: str) -> Iterator[None]:
    """What is refused before the first chunk is a wrong argument: a value, or a kernel that was named."""
    try:
        with kernel_named(attention):
            yield
    except UsageError:
        raise
    except ValueError as error:
        words = str(error)
        raise UsageError(words if len(words) < LONGEST else f"{words[:LONGEST]}...") from error


@contextmanager
def kernel_named(attention: str) -> Iterator[None]:
    """A kernel that was named and cannot serve is a wrong argument, whenever that turns out."""
    from streamgen.attention.contract import KernelError

    try:
        yield
    except KernelError as error:
        if attention == "auto":
            raise
        raise UsageError(str(error)) from error


def dtype_of(request: "Request") -> "torch.dtype":
    """torch's own dtype of a placed request."""
    import torch

    dtype = getattr(torch, request.dtype or "")
    assert isinstance(dtype, torch.dtype), f"{request.dtype} came through parse_dtype"
    return dtype


def usual_dtype(device: str) -> str:
    """What a device computes in where nothing was asked for."""
    return "float32" if device == "cpu" else "bfloat16"


def pick_device(asked: str | None) -> str:
    """The device that was asked for, if it is there; else a GPU where there is one."""
    import torch

    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps needs an Apple GPU and a torch built for it; choose cpu.")
    if asked.startswith("cuda") and int(asked.partition(":")[2] or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UsageError(
            f"--device {asked} is not there: torch {torch.__version__} sees {count} CUDA devices."
        )
    return asked


def quieten_libraries() -> None:
    """Libraries' notes are for their developers, and the hub is not asked for what is on disk."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
    logging.getLogger("torch").setLevel(logging.ERROR)
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
