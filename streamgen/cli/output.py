"""Where the frames go, checked before anything is computed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import typer

from streamgen.cli.streams import typed_at
from streamgen.errors import UsageError
from streamgen.frames.formats import Format, format_of

PIPE = "-"


@dataclass(frozen=True)
class Output:
    """A file, a folder or standard output, and the format to write there."""

    target: str
    form: Format
    pix_fmt: str
    scale: int

    @property
    def piped(self) -> bool:
        return self.target == PIPE

    def place(self, stdout: BinaryIO) -> Path | BinaryIO:
        """What a writer opens: the path, or standard output."""
        return stdout if self.piped else Path(self.target)


def choose_output(target: str, form: str | None, pix_fmt: str | None, scale: int) -> Output:
    """Settle format and pixel format, and refuse an output that cannot work."""
    if scale < 1:
        raise UsageError(f"--scale {scale} makes no picture; it is a whole number from 1 on.")
    chosen = format_of(target, form)
    output = Output(target, chosen, chosen.pix_fmt(pix_fmt), scale)
    if output.piped and sys.stdout.isatty():
        raise UsageError("-o - would write binary frames to this terminal; pipe it into a program or a file.")
    return output


def check_writable(output: Output, overwrite: bool, keep: bool) -> None:
    """Refuse an output that cannot be written, or that exists and may not be replaced."""
    if overwrite and keep:
        raise UsageError("-y replaces an existing output and -n keeps it; give one of them.")
    if output.piped:
        return
    path = Path(output.target)
    folder = output.form.name == "png"
    if path.is_dir() and not folder:
        raise UsageError(f"The output {path} is a folder; name a file in it.")
    if folder and path.exists() and not path.is_dir():
        raise UsageError(f"The output {path} is a file, and PNGs need a folder.")
    if path.exists():
        _check_existing(path, overwrite, keep)
        return
    _check_parent(path, folder)


def _check_existing(path: Path, overwrite: bool, keep: bool) -> None:
    if not os.access(path, os.W_OK):
        raise UsageError(f"The output {path} is there and may not be written to; choose another name.")
    device = not path.is_file() and not path.is_dir()  # /dev/null, a named pipe
    if overwrite or device or (path.is_dir() and not any(path.iterdir())):
        return
    if not keep and typed_at() and sys.stderr.isatty():
        if typer.confirm(f"{path} is there already. Replace it?", err=True):
            return
        keep = True
    raise UsageError(f"The output {path} is there already; -y replaces it.")


def _check_parent(path: Path, folder: bool) -> None:
    parent = path.parent
    while folder and not parent.exists():  # a folder of PNGs is made with its parents
        parent = parent.parent
    if not parent.is_dir():
        raise UsageError(f"The output {path} cannot be written: there is no folder {parent}.")
    if not os.access(parent, os.W_OK):
        raise UsageError(f"The output {path} cannot be written: the folder {parent} is read-only.")


@contextmanager
def reserved_stdout() -> Iterator[BinaryIO]:
    """Standard output as a binary stream of our own; what anyone else prints meanwhile goes to stderr."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    # Unbuffered: when a reader leaves, nothing is left to be flushed at exit.
    with cast(BinaryIO, os.fdopen(own, "wb", buffering=0)) as stdout:
        try:
            yield stdout
        finally:
            sys.stdout.flush()
            os.dup2(own, 1)
