"""The formats frames can be written in, and which one a name or an extension means."""

from dataclasses import dataclass
from pathlib import Path

from streamgen.errors import UsageError


@dataclass(frozen=True)
class Format:
    """One output format: its muxer and codec in PyAV's words, and the pixel formats it takes."""

    name: str
    muxer: str
    codec: str
    extensions: tuple[str, ...]
    pix_fmts: tuple[str, ...]  # the first is the default
    piped: bool = True
    aliases: tuple[str, ...] = ()

    def pix_fmt(self, asked: str | None) -> str:
        """The pixel format to write, or a sentence about those there are."""
        if asked is None:
            return self.pix_fmts[0]
        if asked not in self.pix_fmts:
            known = ", ".join(self.pix_fmts)
            raise UsageError(f"{self.name} cannot hold the pixel format {asked!r}; choose one of {known}.")
        return asked


_ANY = ("rgb24", "bgr24", "rgba", "gray", "yuv420p", "yuv422p", "yuv444p", "nv12")

FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("mp4", "mp4", "libx264", (".mp4", ".m4v"), ("yuv420p", "yuv422p", "yuv444p")),
        Format(
            "y4m",
            "yuv4mpegpipe",
            "wrapped_avframe",
            (".y4m",),
            ("yuv420p", "yuv422p", "yuv444p"),
            aliases=("yuv4mpegpipe",),
        ),
        Format("rawvideo", "rawvideo", "rawvideo", (".rgb", ".yuv", ".raw"), _ANY, aliases=("raw",)),
        Format("nut", "nut", "rawvideo", (".nut",), _ANY),
        Format("mjpeg", "mjpeg", "mjpeg", (".mjpeg", ".mjpg"), ("yuvj420p", "yuvj422p", "yuvj444p")),
        Format("png", "", "", (), ("rgb24",), piped=False),
    )
}

_BY_NAME = {name: entry for entry in FORMATS.values() for name in (entry.name, *entry.aliases)}
_BY_EXTENSION = {extension: entry for entry in FORMATS.values() for extension in entry.extensions}


def format_of(target: str, asked: str | None = None) -> Format:
    """The format of an output: `-f` first, then the extension; `-` is y4m, a folder holds PNGs."""
    if asked is not None:
        return _named(asked, target)
    if target == "-":
        return FORMATS["y4m"]
    extension = Path(target).suffix.lower()
    if extension in _BY_EXTENSION:
        return _BY_EXTENSION[extension]
    if target.endswith("/") or Path(target).is_dir():
        return FORMATS["png"]
    raise UsageError(
        f"The output {target!r} does not say its format; end it in {', '.join(_BY_EXTENSION)}, "
        f"or in / for a folder of PNGs, or name one with -f."
    )


def _named(asked: str, target: str) -> Format:
    if asked not in _BY_NAME:
        raise UsageError(f"There is no output format {asked!r}; choose one of {', '.join(FORMATS)}.")
    entry = _BY_NAME[asked]
    if target == "-" and not entry.piped:
        raise UsageError(f"{entry.name} writes a folder and cannot go to a pipe; give a folder with -o.")
    return entry
