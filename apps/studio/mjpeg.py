"""Without a WebSocket: the pictures of a session as MJPEG, which any <img> shows.

The session lasts as long as the connection. There is no answer of the page here, so what the network buffers
is not known; the live socket is the better way wherever it works.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .link import wait_for
from .player import Player
from .studio import Studio
from .wire import jpeg

BOUNDARY = "streamgen"


class Watch(Response):
    """Streams the first branch of a session that was opened for it."""

    def __init__(self, studio: Studio, player: Player, changed: asyncio.Event) -> None:
        super().__init__()
        self.studio = studio
        self.player = player
        self.changed = changed
        self.raw_headers = [
            (b"content-type", f"multipart/x-mixed-replace; boundary={BOUNDARY}".encode()),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as both:

                async def first(work: Callable[[], Awaitable[None]]) -> None:
                    await work()
                    both.cancel_scope.cancel()

                both.start_soon(first, partial(self._send, send))
                both.start_soon(first, partial(_gone, receive))
        finally:
            self.studio.leave(self.player)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while not self.player.closed:
            self.changed.clear()
            picture, wait = self.player.screen.take()
            if picture is None:
                await wait_for(self.changed, wait)
                continue
            self.studio.worker.wake()
            body = await asyncio.to_thread(jpeg, picture.images[0])
            head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(body)}\r\n\r\n"
            await send(
                {"type": "http.response.body", "body": head.encode() + body + b"\r\n", "more_body": True}
            )
        await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    """Returns when the viewer has left."""
    with contextlib.suppress(RuntimeError):
        while (await receive())["type"] != "http.disconnect":
            pass
