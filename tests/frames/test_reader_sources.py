"""Servers and cameras: timeouts, drops, reconnects, the newest frame, and leaving whatever happens."""

import errno
import io
import itertools
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import av
import pytest
from PIL import Image

from streamgen.frames import SourceLostError, read, reader
from streamgen.frames.source import Source
from tests.frames import clips, servers


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries that suit a test."""
    monkeypatch.setattr(reader, "_FIRST_WAIT", 0.05)


@pytest.fixture
def movie(tmp_path: Path) -> bytes:
    """An mp4 with its index in front, large enough to be cut off on its way."""
    pictures = clips.numbered(60)
    for picture in pictures:
        picture[::3, ::2] = 255
    return clips.write(tmp_path / "a.mp4", pictures, options={"movflags": "faststart"}).read_bytes()


@pytest.fixture
def transport(tmp_path: Path) -> bytes:
    """Thirty numbered frames as a camera would send them."""
    return clips.write(tmp_path / "a.ts", clips.numbered(30), b_frames=0).read_bytes()


def hang_up(connection: socket.socket, number: int) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def stall(connection: socket.socket, number: int) -> None:
    time.sleep(60)


def test_a_server_that_drops_is_asked_for_the_rest(movie: bytes) -> None:
    with servers.http(movie, lambda number: 0.5 if number == 1 else 1.0) as server:
        with read(f"http://127.0.0.1:{server.port}/a.mp4", timeout=5) as frames:
            times = [frame.time for frame in frames]
        assert times == pytest.approx([index / 10 for index in range(60)])
        assert frames.tally.reconnects == 1


@pytest.mark.parametrize("parts", [True, False])
def test_a_part_of_a_video_on_a_server_is_that_of_the_file(parts: bool, movie: bytes, tmp_path: Path) -> None:
    whole = [frame.time for frame in read(tmp_path / "a.mp4", fps=4) if 3 <= frame.time < 5]
    with servers.http(movie, lambda number: 1.0, parts) as server:
        frames = read(f"http://127.0.0.1:{server.port}/a.mp4", fps=4, start=3, end=5, timeout=5)
        assert [frame.time for frame in frames] == whole
    with servers.http(movie, lambda number: 0.5 if number == 1 else 1.0, parts) as server:
        frames = read(f"http://127.0.0.1:{server.port}/a.mp4", timeout=5)
        assert len(list(frames)) == 60


def test_a_server_that_keeps_dropping_is_given_up_with_the_count(movie: bytes) -> None:
    with servers.http(movie, lambda number: 0.5) as server, pytest.raises(SourceLostError) as lost:
        taken = []
        taken.extend(read(f"http://user:secret@127.0.0.1:{server.port}/a.mp4", timeout=5))
    assert len(server.connections) == 1 + reader.TRIES
    assert "tried 3 times" in str(lost.value) and "secret" not in str(lost.value)
    assert 10 < lost.value.frames < 50 and lost.value.time is not None


@pytest.mark.parametrize("scheme", ["rtsp", "http"])
def test_nobody_there_is_said_at_once(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(SourceLostError, match="Connection refused"):  # not: cannot be opened within 600 s
        read(f"{scheme}://127.0.0.1:{port}/x", timeout=600).ready()


@pytest.mark.parametrize("scheme", ["rtsp", "http"])
def test_a_server_that_never_answers_is_given_up_after_the_timeout(scheme: str) -> None:
    with servers.mute() as server:
        began = time.monotonic()
        with pytest.raises(SourceLostError, match="cannot be opened"):
            read(f"{scheme}://127.0.0.1:{server.port}/x", timeout=0.5).ready()
        assert time.monotonic() - began > 0.4


def test_a_camera_over_rtsp_is_read(transport: bytes) -> None:
    with servers.rtsp(transport, stall, 0.002) as server:
        stream = read(f"rtsp://127.0.0.1:{server.port}/x", latest=False)
        frames = list(itertools.islice(stream, 20))
    assert [clips.number_of(frame.picture) for frame in frames] == list(range(20))
    assert [frame.time for frame in frames] == pytest.approx([index / 10 for index in range(20)])


@pytest.mark.parametrize("after", [hang_up, stall])
def test_a_camera_that_comes_back_goes_on_later_by_the_clock(after: object, transport: bytes) -> None:
    with servers.rtsp(transport, after, 0.002) as server:
        stream = read(f"rtsp://127.0.0.1:{server.port}/x", latest=False, timeout=0.5)
        frames = list(itertools.islice(stream, 50))
        assert stream.tally.reconnects == 1 and len(server.connections) == 2
    numbers = [clips.number_of(frame.picture) for frame in frames]
    back = numbers.index(0, 1)
    assert numbers == [*range(back), *range(50 - back)] and back > 25
    gap = frames[back].time - frames[back - 1].time
    assert 0.05 < gap < 4
    later = [frame.time - frames[back].time for frame in frames[back:]]
    assert later == pytest.approx([index / 10 for index in range(50 - back)])


def test_a_recording_over_rtsp_ends_when_it_ends(transport: bytes) -> None:
    with servers.rtsp(transport, hang_up, 0.002, length=3) as server:
        stream = read(f"rtsp://127.0.0.1:{server.port}/x", latest=False)
        assert len(list(stream)) > 25
        assert (len(server.connections), stream.duration) == (1, 3.0)


def test_pictures_of_a_web_camera_are_live_and_timed_by_the_clock() -> None:
    pictures = []
    for picture in clips.numbered(8):
        Image.fromarray(picture).save(file := io.BytesIO(), "JPEG", quality=95)
        pictures.append(file.getvalue())
    with servers.web_camera(pictures * 2, 0.1) as server:
        stream = read(f"http://127.0.0.1:{server.port}/camera", latest=False)
        times = [frame.time for frame in itertools.islice(stream, 12)]
        assert stream.live
    assert times[0] == 0 and times == sorted(times)
    assert times[-1] - times[4] > 0.5  # seven tenths by the clock, not seven 25ths


def test_a_camera_that_stays_away_is_given_up_and_its_frames_were_kept(transport: bytes) -> None:
    def vanish(connection: socket.socket, number: int) -> None:
        server.__exit__()

    with servers.rtsp(transport, vanish, 0.002) as server:
        taken = []
        with pytest.raises(SourceLostError, match="tried 3 times") as lost:
            taken.extend(read(f"rtsp://127.0.0.1:{server.port}/x", latest=False, timeout=1))
    assert len(taken) == lost.value.frames > 25


def test_of_a_live_source_the_newest_frame_is_given_and_the_others_are_counted(transport: bytes) -> None:
    with servers.rtsp(transport, stall, 0.02) as server, read(f"rtsp://127.0.0.1:{server.port}/x") as stream:
        first = next(stream)
        end = time.monotonic() + 10
        while stream.tally.decoded < 20 and time.monotonic() < end:
            time.sleep(0.01)
        second = next(stream)
    assert clips.number_of(first.picture) < 10 < 18 <= clips.number_of(second.picture)
    assert stream.dropped >= 10


def test_a_slow_consumer_of_a_file_gets_every_frame_and_little_is_read_ahead(tmp_path: Path) -> None:
    path = clips.write(tmp_path / "a.mp4", clips.numbered(40))
    with read(path) as frames:
        next(frames)
        time.sleep(0.3)
        assert frames.tally.decoded <= 1 + reader.AHEAD + 1
        assert len(list(frames)) == 39 and frames.dropped == 0


class Unplugged:
    """A container whose device goes away after some packets."""

    def __init__(self, container: av.container.InputContainer, packets: int) -> None:
        self._container, self._packets = container, packets

    def __getattr__(self, name: str) -> object:
        return getattr(self._container, name)

    def demux(self) -> object:
        yield from itertools.islice(self._container.demux(), self._packets)
        raise av.error.OSError(errno.ENODEV, "No such device", "/dev/video0")


def test_a_camera_that_is_unplugged_is_named_after_its_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clips.write(tmp_path / "a.ts", clips.numbered(30), b_frames=0)
    real, opened = av.open, []

    def opening(*arguments: object, **options: object) -> object:
        opened.append(options["format"])
        if len(opened) > 1:
            raise av.error.FileNotFoundError(errno.ENOENT, "No such file or directory", "/dev/video0")
        return Unplugged(real(str(path)), 12)

    monkeypatch.setattr(av, "open", opening)
    monkeypatch.setattr(
        reader, "source_of", lambda name: Source("/dev/video0", "/dev/video0", "camera", "v4l2", live=True)
    )
    taken = []
    with pytest.raises(SourceLostError, match=r"/dev/video0 .*No such file.*tried 3 times") as lost:
        taken.extend(read("cam:0", latest=False))
    assert opened == ["v4l2"] * (1 + reader.TRIES)
    assert len(taken) == lost.value.frames >= 10


def test_closing_ends_the_reading_thread() -> None:
    def readers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "streamgen-reader"]

    before = len(readers())
    closed = read("lavfi:testsrc=rate=25").ready()
    forgotten = read("lavfi:testsrc=rate=25").ready()
    assert len(readers()) == before + 2
    closed.close()
    del forgotten
    end = time.monotonic() + 5
    while len(readers()) > before and time.monotonic() < end:
        time.sleep(0.01)
    assert len(readers()) == before
    assert list(closed) == []


@pytest.mark.parametrize("scheme", ["rtsp", "http", "tcp"])
def test_ctrl_c_leaves_a_hanging_source_long_before_its_timeout(scheme: str) -> None:
    with servers.mute() as server:
        code = (
            "from streamgen.frames import read\nprint('reading', flush=True)\n"
            f"next(read('{scheme}://127.0.0.1:{server.port}/x', timeout=600))"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # also in a background job
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.readline()
            end = time.monotonic() + 20
            while not server.connections and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1].decode()
    assert said.rstrip().endswith("KeyboardInterrupt")
