"""Files that a page brings: one at a time, in the folder of its session, opened as what they begin like.

FFmpeg is told the container and never guesses it: a playlist, which would name other files, is refused.
"""

import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from streamgen.errors import UsageError
from streamgen.frames import description
from streamgen.frames.source import Source

from .player import Player

BEGINNING = 16  # bytes that say what a file is
VIDEOS = "mp4, mov, mkv, webm, avi or gif"


async def keep(player: Player, pieces: AsyncIterator[bytes]) -> str:
    """Write what comes to the session's folder in place of what was there; the name to speak of it."""
    name = f"upload-{secrets.token_hex(4)}"
    path = player.folder / name
    player.folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("wb") as file:
            async for piece in pieces:
                file.write(piece)
        if not path.stat().st_size:
            raise UsageError("The upload is empty: it holds no byte.")
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    for old in player.uploads.values():
        old.unlink(missing_ok=True)
    player.uploads.clear()
    player.uploads[name] = path
    if player.closed:  # its folder went before the file came
        path.unlink(missing_ok=True)
        player.folder.rmdir()
        raise UsageError("The session has ended; its uploads went with it.")
    return name


def upload_of(player: Player, name: Any) -> Path:
    """A file that this page brought; no other can be named."""
    if name not in player.uploads:
        raise UsageError(f"There is no upload {str(name)[:40]!r} in this session; bring the file first.")
    return player.uploads[name]


def video_of(path: Path) -> Source:
    """An upload as a source of frames."""
    form = _container(path)
    if form is None:
        raise UsageError(f"The upload is none of {VIDEOS}, by its first bytes.")
    return Source("the upload", f"file:{path}", "file", form)


def log_of(path: Path) -> dict[str, Any]:
    """The control log in an upload: JSON, or an mp4 that carries it."""
    try:
        if _container(path) == "mp4":
            comment = description(path).get("comment", "")
            record = json.loads(comment) if comment else None
        else:
            record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "The upload is neither a control log nor an mp4 with one; give what Record made, or "
            "`streamgen world -o NAME.mp4`."
        ) from error
    if not isinstance(record, dict) or "events" not in record:
        raise UsageError("No control log is in this recording; open the .json that lies beside it.")
    return record


def _container(path: Path) -> str | None:
    """FFmpeg's name of the container that a file begins like."""
    with path.open("rb") as file:
        begins = file.read(BEGINNING)
    if begins[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free"):
        return "mp4"
    if begins[:4] == b"RIFF" and begins[8:12] == b"AVI ":
        return "avi"
    return {b"\x1aE\xdf\xa3": "matroska", b"GIF8": "gif"}.get(begins[:4])
