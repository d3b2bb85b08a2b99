"""Make the pictures that were asked for, or say what making them would take."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from streamgen.cli import backend
from streamgen.cli.image_request import ImageWish
from streamgen.cli.image_sheet import columns_for, enlarged, grid, strip
from streamgen.cli.output import PIPE, reserved_stdout
from streamgen.cli.say import say

if TYPE_CHECKING:
    from PIL import Image

    from streamgen.pipelines.image import ImagePipeline, Preview

DONE = 0
STEP_MS, HOLD_MS = 400, 2000  # of an animation: each scale, and the finished sheet


def dry(wish: ImageWish) -> int:
    """Print the settled wish and its memory as JSON."""
    pipe = load(wish)
    previews(pipe, wish)
    memory = pipe.memory_bytes(len(wish.seeds))
    print(json.dumps({**described(wish, pipe), "output": wish.target, "memory_bytes": memory}, indent=2))
    return DONE


def make(wish: ImageWish) -> int:
    """Scale by scale, then the sheet."""
    began = time.perf_counter()
    with reserved_stdout() as stdout:
        pipe = load(wish)
        shown = list(watched(previews(pipe, wish), wish.asked.quiet))
        words = json.dumps(described(wish, pipe), ensure_ascii=False)
        write(wish, sheets(wish, shown), stdout, words)
    if not wish.asked.quiet:
        where = "standard output" if wish.target == PIPE else wish.target
        last = f" to {wish.seeds[-1]}" if len(wish.seeds) > 1 else ""
        say(
            f"{where}: {len(wish.seeds)} pictures, seed {wish.seeds[0]}{last}, "
            f"in {time.perf_counter() - began:.1f} s, loading included."
        )
    return DONE


def load(wish: ImageWish) -> "ImagePipeline":
    backend.quieten_libraries()
    import torch

    from streamgen.pipelines.image import ImagePipeline

    with backend.refusals(wish.asked.attention):
        return ImagePipeline.from_pretrained(
            wish.folder,
            vae=wish.vae,
            device=backend.pick_device(wish.device),
            dtype=getattr(torch, wish.dtype) if wish.dtype else None,
            attention=wish.asked.attention,
        )


def previews(pipe: "ImagePipeline", wish: ImageWish) -> Iterator["Preview"]:
    """The stream; what cannot be had is refused here, before the first scale."""
    asked = wish.asked
    how: dict[str, Any] = {
        "seeds": wish.seeds,
        "preset": asked.preset,
        "cfg": asked.cfg,
        "top_k": asked.top_k,
        "top_p": asked.top_p,
        "more_smooth": asked.more_smooth,
    }
    with backend.refusals(asked.attention):
        if wish.picture is not None:
            return pipe.edit(wish.picture, wish.mask, wish.labels[0], **how)
        return pipe.stream(wish.labels, **how)


def watched(stream: Iterator["Preview"], quiet: bool) -> Iterator["Preview"]:
    """The same, with the scale on stderr where somebody is watching."""
    from rich.console import Console

    console = Console(stderr=True)
    with nullcontext() if quiet or not sys.stderr.isatty() else console.status("scale 1") as status:
        for preview in stream:
            if status is not None:
                status.update(f"scale {preview.index + 2} of {len(preview.patches)}")
            yield preview


def sheets(wish: ImageWish, shown: list["Preview"]) -> list["Image.Image"]:
    """One sheet, or one for each scale of an animation."""
    columns = columns_for(len(wish.seeds), wish.asked.count)
    if wish.animated:
        pages = [grid(preview.images, columns) for preview in shown]
    elif wish.asked.preview_scales:
        pages = [strip([preview.images for preview in shown])]
    else:
        pages = [grid(shown[-1].images, columns)]
    return [enlarged(page, wish.asked.scale) for page in pages]


def write(wish: ImageWish, frames: list["Image.Image"], stdout: BinaryIO, words: str) -> None:
    """The file, with the wish in it where the format has room for words."""
    from PIL.PngImagePlugin import PngInfo

    options: dict[str, Any] = {}
    if wish.form == "PNG":
        info = PngInfo()
        info.add_itxt("Comment", words)
        options = {"pnginfo": info}
    if len(frames) > 1:
        durations = [STEP_MS] * (len(frames) - 1) + [HOLD_MS]
        options |= {"save_all": True, "append_images": frames[1:], "duration": durations, "loop": 0}
    if wish.form == "WEBP":
        options["lossless"] = True
    frames[0].save(stdout if wish.target == PIPE else Path(wish.target), format=wish.form, **options)


def described(wish: ImageWish, pipe: "ImagePipeline") -> dict[str, object]:
    """What would make the same sheet again; it also travels in a PNG."""
    asked = wish.asked
    sampling = pipe.settings.preset(asked.preset).changed(
        asked.cfg, asked.top_k, asked.top_p, asked.more_smooth
    )
    return {
        "labels": ["no class" if label is None else label for label in wish.labels],
        "seeds": list(wish.seeds),
        "model": asked.model,
        "size": list(pipe.size),
        "sampling": vars(sampling),
        "attention": asked.attention,
        "dtype": str(pipe.model.dtype).removeprefix("torch."),
        "edit": asked.edit,
        "mask": asked.mask,
    }
