"""Where the command meets the pipelines; everything heavy is imported in here, when it is needed."""

import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from streamgen.errors import UsageError

if TYPE_CHECKING:
    from streamgen.cli.request import Request
    from streamgen.pipelines.settings import VideoSettings
    from streamgen.pipelines.video import Chunk


def folder_of(model: str) -> Path:
    """The folder of a model; nothing is downloaded for it."""
    from streamgen.models.registry import resolve

    return resolve(model)


def settings_of(folder: Path) -> "VideoSettings":
    """What the model's own streamgen.json says."""
    from streamgen.pipelines.settings import VideoSettings

    return VideoSettings.load(folder)


def memory_of(request: "Request") -> dict[str, object]:
    """The bytes that the request would hold, as far as they are known before it runs."""
    raise NotImplementedError


def chunks(request: "Request") -> Iterator["Chunk"]:
    """Load the model and stream; what is refused before the first chunk is a wrong argument."""
    quieten_libraries()
    check_device(request.device)
    import torch

    from streamgen.attention.contract import KernelError
    from streamgen.pipelines.video import VideoPipeline

    try:
        pipeline = VideoPipeline.from_pretrained(
            str(request.folder),
            dtype=getattr(torch, request.dtype) if request.dtype else None,
            device=request.device,
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
            prompts=request.prompts,
        )
        first = next(stream)
    except KernelError as error:
        if request.attention == "auto":
            raise
        raise UsageError(str(error)) from error
    yield first
    yield from stream


def check_device(device: str | None) -> None:
    """Refuse a device that this torch does not have."""
    if device is None or device == "cpu":
        return
    import torch

    if device == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps needs an Apple GPU and a torch built for it; choose cpu.")
    if device.startswith("cuda"):
        count = torch.cuda.device_count()
        number = int(device.partition(":")[2] or 0)
        if number >= count:
            raise UsageError(
                f"--device {device} is not there: torch {torch.__version__} sees {count} CUDA devices."
            )


def quieten_libraries() -> None:
    """Libraries' notes are for their developers, and the hub is not asked for what is on disk."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
    logging.getLogger("torch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
