"""Servers of one socket, as bad as the tests need them: mute, dropping, stalling, and RTSP cameras."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self


@dataclass
class Server:
    """Hands every connection, with its number, to `serve`; connections stay until the block is left."""

    serve: Callable[[socket.socket, int], None]
    connections: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for connection in (self._listening, *self.connections):
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections.append(connection)
                number = len(self.connections)
                threading.Thread(target=self._handle, args=(connection, number), daemon=True).start()

    def _handle(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError):
            self.serve(connection, number)


def mute() -> Server:
    """Accepts, and never says a word."""
    return Server(lambda connection, number: time.sleep(60))


def http(data: bytes, sends: Callable[[int], float], parts: bool = True) -> Server:
    """Serves `data`, in parts if asked; connection `number` drops after the share `sends(number)` of it."""

    def serve(connection: socket.socket, number: int) -> None:
        first = 0
        for line in connection.recv(4096).decode().splitlines():
            if parts and line.lower().startswith("range:"):
                first = int(line.partition("=")[2].partition("-")[0])
        head = (
            f"HTTP/1.1 {206 if parts else 200} Here\r\nContent-Type: video/mp4\r\n"
            f"Content-Length: {len(data) - first}\r\n"
        )
        if parts:
            head += f"Accept-Ranges: bytes\r\nContent-Range: bytes {first}-{len(data) - 1}/{len(data)}\r\n"
        connection.sendall(head.encode() + b"\r\n" + data[first : int(len(data) * sends(number))])
        connection.close()

    return Server(serve)


_SDP = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=video 0 RTP/AVP 33\r\na=control:track\r\n"
_TRANSPORT = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n"


def web_camera(pictures: Sequence[bytes], pace: float) -> Server:
    """JPEGs, one after another in one response that never ends, as web cameras send them."""

    def serve(connection: socket.socket, number: int) -> None:
        connection.recv(4096)
        kind = "multipart/x-mixed-replace;boundary=next"
        connection.sendall(f"HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode())
        for picture in pictures:
            head = f"--next\r\nContent-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
            connection.sendall(head.encode() + picture + b"\r\n")
            time.sleep(pace)
        time.sleep(60)

    return Server(serve)


def rtsp(
    stream: bytes, after: Callable[[socket.socket, int], None], pace: float = 0.0, length: int | None = None
) -> Server:
    """Answers, sends an MPEG transport stream, `pace` seconds between packets, and does `after`.

    A camera, unless it says that what it sends is so many seconds long.
    """
    about = _SDP if length is None else f"{_SDP}a=range:npt=0-{length}\r\n"

    def serve(connection: socket.socket, number: int) -> None:
        request = ""
        while not request.startswith("PLAY"):
            request = connection.recv(4096).decode()
            if not request:
                return
            answer(connection, request, about)
        for index, first in enumerate(range(0, len(stream), 7 * 188)):
            payload = stream[first : first + 7 * 188]
            packet = struct.pack(">BBHII", 0x80, 33, index & 0xFFFF, index * 900, 7) + payload
            connection.sendall(struct.pack(">cBH", b"$", 0, len(packet)) + packet)
            time.sleep(pace)
        after(connection, number)

    return Server(serve)


def answer(connection: socket.socket, request: str, about: str) -> None:
    """The response to OPTIONS, DESCRIBE, SETUP or PLAY."""
    number = next(line for line in request.splitlines() if line.lower().startswith("cseq"))
    head, body = f"RTSP/1.0 200 OK\r\n{number}\r\n", ""
    if request.startswith("OPTIONS"):
        head += "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n"
    elif request.startswith("DESCRIBE"):
        head, body = f"{head}Content-Type: application/sdp\r\nContent-Length: {len(about)}\r\n", about
    else:
        head += _TRANSPORT
    connection.sendall(f"{head}\r\n{body}".encode())
