"""Sources that fail while they are watched: a typed error, and the memory of their good frames alone."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from streamgen.frames import DamagedVideoError, Frame, Reader, SourceLostError, read, reader
from streamgen.frames.source import Source
from streamgen.pipelines.videoqa import VideoQAPipeline
from tests.frames import clips, servers
from tests.frames.test_reader_sources import Unplugged
from tests.pipelines.videoqa_models import assert_same, frames

Patch = pytest.MonkeyPatch


def damaged(folder: Path, patch: Patch, until: ExitStack) -> Reader:
    """Its second half is missing."""
    noise = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 3), np.uint8)
    return read(clips.cut(clips.write(folder / "a.mkv", list(noise)), 0.7))


def unplugged(folder: Path, patch: Patch, until: ExitStack) -> Reader:
    """A camera that goes away after some packets and does not come back."""
    path, real, opened = clips.write(folder / "a.ts", clips.numbered(30), b_frames=0), av.open, []

    def opening(*arguments: object, **options: object) -> object:
        opened.append(arguments)
        if len(opened) > 1:
            raise av.error.FileNotFoundError(errno.ENOENT, "No such file or directory", "/dev/video0")
        return Unplugged(real(str(path)), 12)

    patch.setattr(av, "open", opening)
    camera = Source("/dev/video0", "/dev/video0", "camera", "v4l2", live=True)
    patch.setattr(reader, "source_of", lambda name: camera)
    return read("cam:0", latest=False)


def refused(folder: Path, patch: Patch, until: ExitStack) -> Reader:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return read(f"rtsp://127.0.0.1:{closed.getsockname()[1]}/x")


def stalled(folder: Path, patch: Patch, until: ExitStack) -> Reader:
    server = until.enter_context(servers.mute())
    return read(f"rtsp://127.0.0.1:{server.port}/x", timeout=0.5)


def dropped(folder: Path, patch: Patch, until: ExitStack) -> Reader:
    """A camera whose server goes away after thirty frames."""

    def vanish(connection: socket.socket, number: int) -> None:
        server.__exit__()

    sent = clips.write(folder / "a.ts", clips.numbered(30), b_frames=0).read_bytes()
    server = until.enter_context(servers.rtsp(sent, vanish, 0.002))
    return read(f"rtsp://127.0.0.1:{server.port}/x", latest=False, timeout=1)


@pytest.mark.parametrize(
    ("fault", "error", "fewest"),
    [
        (damaged, DamagedVideoError, 3),
        (unplugged, SourceLostError, 3),
        (refused, SourceLostError, 0),
        (stalled, SourceLostError, 0),
        (dropped, SourceLostError, 6),
    ],
)
def test_a_source_that_fails_leaves_the_memory_of_its_good_frames(
    fault: Any, error: type[Exception], fewest: int, qa: VideoQAPipeline, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(reader, "_FIRST_WAIT", 0.05)
    good: list[Frame] = []

    def kept(source: Reader) -> Iterator[Frame]:
        with source:
            for frame in source:
                good.append(frame)
                yield frame

    with qa.open() as session, qa.open() as solo, ExitStack() as until:
        for one in (session, solo):
            list(one.watch(frames(5)))
        with pytest.raises(error):
            list(session.watch(kept(fault(tmp_path, monkeypatch, until))))
        list(solo.watch(iter(good)))
        assert session.stats.looked == solo.stats.looked >= 5 + fewest
        assert not session.pending
        assert_same(session, solo)
        for one in (session, solo):
            list(one.watch(frames(3, seed=2)))
        assert_same(session, solo)
        assert "".join(session.ask("what is seen?")) == "".join(solo.ask("what is seen?"))
