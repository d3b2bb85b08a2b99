"""What a source is: a file, a pipe, a server or a camera, and how FFmpeg is asked to open it."""

import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal
from urllib.parse import urlsplit, urlunsplit

from streamgen.errors import UsageError
from streamgen.frames.read_errors import NoVideoError

Kind = Literal["file", "pipe", "server", "camera"]

PIPE = "-"
ENDLESS = ("rtsp", "rtsps", "rtmp", "rtmps", "rtp", "srt", "udp")  # what comes from these is happening now
SERVERS = (*ENDLESS, "http", "https", "tcp")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_CAMERA = re.compile(r"cam:(\d+)|/dev/video\d+")
_GENERATED = "lavfi:"
_DEVICES = Path("/dev")


@dataclass(frozen=True)
class Source:
    """A place that frames come from; `name` is for sentences and holds no password."""

    name: str
    place: str | BinaryIO
    kind: Kind
    form: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    live: bool = False  # it goes on whether somebody reads or not

    @property
    def may_return(self) -> bool:
        """Whether it is worth opening again when it goes away."""
        return self.kind in ("server", "camera")


def source_of(source: str | os.PathLike[str] | BinaryIO | Source) -> Source:
    """What a name means: `-`, a URL, `cam:0` or `/dev/video0`, `lavfi:GRAPH`, a path; or an open file."""
    if isinstance(source, Source):
        return source
    if not isinstance(source, (str, os.PathLike)):
        return Source(str(getattr(source, "name", "the stream")), source, "pipe")
    text = os.fspath(source)
    if text == PIPE:
        return _standard_input()
    if _CAMERA.fullmatch(text):
        return _camera(text)
    if text.startswith(_GENERATED):
        return Source(text, text.removeprefix(_GENERATED), "pipe", "lavfi")
    scheme = _SCHEME.match(text)
    return _server(text, scheme[1].lower()) if scheme else _path(text)


def _standard_input() -> Source:
    if sys.stdin is not None and sys.stdin.isatty():
        raise UsageError("- reads a video from standard input, which is this terminal; pipe one into it.")
    return Source("standard input", "pipe:0", "pipe")


def _camera(text: str) -> Source:
    device = Path(f"/dev/video{text.removeprefix('cam:')}" if text.startswith("cam:") else text)
    if not device.exists():
        there = ", ".join(sorted(str(path) for path in _DEVICES.glob("video*"))) or "none"
        raise NoVideoError(
            f"There is no camera {device}; cameras of this machine: {there}. "
            "Plug one in, or name a file or a URL."
        )
    return Source(str(device), str(device), "camera", "v4l2", live=True)


def _server(text: str, scheme: str) -> Source:
    if scheme == "file":
        return _path(text[len("file://") :])
    if scheme not in SERVERS:
        raise UsageError(
            f"Videos do not come by {scheme}://; choose one of {', '.join(SERVERS)}, a file, a camera, or -."
        )
    parts = urlsplit(text)
    host = parts.netloc.rpartition("@")[2]
    name = urlunsplit(parts._replace(netloc=host))
    # UDP is lost in most firewalls, and asking for it first costs seconds.
    options = {"rtsp_flags": "prefer_tcp"} if scheme.startswith("rtsp") else {}
    return Source(name, text, "server", options=options, live=scheme in ENDLESS)


def _path(text: str) -> Source:
    path = Path(text)
    try:
        about = path.stat()
    except OSError as error:
        words = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise NoVideoError(f"The video {path} cannot be read: {words}.") from error
    if stat.S_ISDIR(about.st_mode):
        raise NoVideoError(f"{path} is a folder; name one video in it.")
    if not os.access(path, os.R_OK):
        raise NoVideoError(f"The video {path} cannot be read: its permissions do not allow it.")
    if not stat.S_ISREG(about.st_mode):
        return Source(str(path), f"file:{path}", "pipe")
    if about.st_size == 0:
        raise NoVideoError(f"{path} is empty: it holds no byte, so no video.")
    return Source(str(path), f"file:{path}", "file")
