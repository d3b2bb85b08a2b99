"""What `streamgen image` was asked, checked and settled before anything heavy is imported."""

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from streamgen.cli import backend
from streamgen.cli.output import PIPE
from streamgen.cli.request import parse_device, parse_dtype
from streamgen.errors import UsageError

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP", ".gif": "GIF"}
MOVING = ("WEBP", "GIF")
MOST = 4096  # pictures of one call


@dataclass(frozen=True)
class ImageAsked:
    """The command line as it was typed."""

    labels: tuple[str, ...]
    count: int
    seed: int | None
    edit: str | None
    mask: str | None
    model: str
    vae: str | None
    preset: str
    cfg: float | None
    top_k: int | None
    top_p: float | None
    more_smooth: bool | None
    attention: str
    dtype: str | None
    device: str | None
    output: str | None
    preview_scales: bool
    scale: int
    overwrite: bool
    dry_run: bool
    quiet: bool


@dataclass(frozen=True)
class ImageWish:
    """Pictures that can be made, as far as that is known without the model."""

    asked: ImageAsked
    labels: tuple[str | None, ...]  # one a picture
    seeds: tuple[int, ...]
    folder: Path
    vae: Path | None
    picture: Image.Image | None
    mask: Image.Image | None
    target: str
    form: str
    dtype: str | None
    device: str | None

    @property
    def animated(self) -> bool:
        return self.asked.preview_scales and self.form in MOVING


def settle(asked: ImageAsked) -> ImageWish:
    """Check everything that can be checked without computing, cheapest first."""
    labels: tuple[str | None, ...] = asked.labels
    if not labels and asked.edit is None:
        raise UsageError("A label is missing; give class names or numbers, or 'none' for no class.")
    if (asked.edit is None) != (asked.mask is None):
        raise UsageError(
            "--edit and --mask belong together; give the picture, and the mask that is white on it."
        )
    if asked.edit is not None and len(labels) > 1:
        raise UsageError(f"--edit takes one label, not {len(labels)}; --count makes several variants of it.")
    labels = labels or (None,)
    if asked.count < 1 or asked.count * len(labels) > MOST:
        raise UsageError(
            f"--count {asked.count} makes no sheet; give at least 1, and at most {MOST} pictures in all."
        )
    if asked.scale < 1:
        raise UsageError(f"--scale {asked.scale} makes no picture; it is a whole number from 1 on.")
    if asked.seed is not None and not 0 <= asked.seed < 2**62:
        raise UsageError(f"--seed {asked.seed} is out of range; it is a whole number from 0 on.")
    dtype, device = parse_dtype(asked.dtype), parse_device(asked.device)
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    target = asked.output or f"image-{seed}.png"
    form = _format(target)
    folder = backend.folder_of(asked.model)
    picture, mask = (None if name is None else _opened(name) for name in (asked.edit, asked.mask))
    if not asked.dry_run:
        _check_writable(target, asked.overwrite)
    return ImageWish(
        asked=asked,
        labels=tuple(label for label in labels for _ in range(asked.count)),
        seeds=tuple(range(seed, seed + asked.count * len(labels))),
        folder=folder,
        vae=None if asked.vae is None else _present(asked.vae),
        picture=picture,
        mask=mask,
        target=target,
        form=form,
        dtype=dtype,
        device=device,
    )


def _format(target: str) -> str:
    if target == PIPE:
        if sys.stdout.isatty():
            raise UsageError("-o - would write a PNG to this terminal; pipe it into a program or a file.")
        return "PNG"
    form = FORMATS.get(Path(target).suffix.lower())
    if form is None:
        raise UsageError(f"The output {target} does not say its format; end it in {', '.join(FORMATS)}.")
    return form


def _opened(name: str) -> Image.Image:
    try:
        picture = Image.open(name)
        picture.load()
    except OSError as error:
        raise UsageError(f"The picture {name} cannot be read: {error}.") from error
    return picture


def _present(name: str) -> Path:
    if not Path(name).exists():
        raise UsageError(f"--vae {name} is not there; give the file of the VQ-VAE.")
    return Path(name)


def _check_writable(target: str, overwrite: bool) -> None:
    if target == PIPE:
        return
    path = Path(target)
    if not path.parent.is_dir():
        raise UsageError(f"The output {path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise UsageError(f"The output {path} is a folder; name a file in it.")
    if path.exists() and not overwrite:
        raise UsageError(f"The output {path} is there already; -y replaces it.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"The output {path} cannot be written: it is read-only there.")
