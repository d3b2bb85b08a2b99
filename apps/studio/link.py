"""One WebSocket, one session: words come in, words and pictures go out, one picture under way at most."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import anyio
from starlette.websockets import WebSocket, WebSocketDisconnect

from streamgen.errors import UsageError

from .player import Player
from .screen import Picture
from .studio import Studio, StudioFullError
from .wire import LONGEST, pack, read

BUSY, WRONG, TOO_BIG = 1013, 1008, 1009  # close codes of RFC 6455
MOST_MISTAKES = 20


async def link(studio: Studio, socket: WebSocket, tab: str) -> None:
    """Serve a page until it leaves; whatever happens, its session ends with the socket."""
    await socket.accept()
    changed = asyncio.Event()
    try:
        player = studio.open(tab, threadsafe(changed))
    except UsageError as refusal:
        code = BUSY if isinstance(refusal, StudioFullError) else WRONG
        await _refuse(socket, str(refusal), code)
        return
    line = Link(studio, socket, player, changed)
    try:
        await line.run()
    finally:
        studio.leave(player)


def threadsafe(event: asyncio.Event) -> Callable[[], None]:
    """Sets an event of this loop from any thread; a loop that has ended hears nothing any more."""
    loop = asyncio.get_running_loop()

    def set_event() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return set_event


class Link:
    """Both directions at once; the first one to end takes the other along."""

    def __init__(self, studio: Studio, socket: WebSocket, player: Player, changed: asyncio.Event) -> None:
        self.studio = studio
        self.socket = socket
        self.player = player
        self.changed = changed
        self.mistakes = 0
        self._number = 0  # of the last picture
        self._under_way: Picture | None = None
        self._last: tuple[str, int] | None = None  # why the session is to end, and the close code

    async def run(self) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(self._side, self._read, both.cancel_scope)
            both.start_soon(self._side, self._write, both.cancel_scope)

    async def _side(self, work: Callable[[], Awaitable[None]], both: anyio.CancelScope) -> None:
        try:
            await work()
        except (WebSocketDisconnect, RuntimeError):  # starlette: send or receive after the end
            return
        finally:
            both.cancel()

    async def _read(self) -> None:
        while True:
            message = await self.socket.receive()
            if message["type"] != "websocket.receive":
                return
            text = message.get("text")
            try:
                self._hear(message["bytes"] if text is None else text)
            except UsageError as refusal:
                self.mistakes += 1
                self.player.outbox.say("refused", why=str(refusal))
                if len(text or "") > LONGEST:
                    await self._end(str(refusal), TOO_BIG)
                if self.mistakes >= MOST_MISTAKES:
                    await self._end(
                        f"{self.mistakes} messages were not understood. The last: {refusal}", WRONG
                    )

    async def _end(self, why: str, code: int) -> None:
        """Only the writer sends, so that nothing comes after the end or cuts it short."""
        self._last = (why, code)
        self.changed.set()
        await anyio.sleep_forever()

    def _hear(self, message: str | bytes) -> None:
        words = read(message)
        if words["do"] != "shown":
            self.studio.hear(self.player, words)
            return
        if self._under_way is None or words["picture"] != self._number:
            raise UsageError(f"Picture {words['picture']} is not under way.")
        self.player.saw(self._under_way)
        self._under_way = None
        self.changed.set()

    async def _write(self) -> None:
        while self._last is None:
            self.changed.clear()
            picture, wait = (None, None) if self._under_way is not None else self.player.screen.take()
            # Taken after the picture, sent before it: words come first.
            for note in self.player.outbox.take():
                await self.socket.send_text(json.dumps(note))
            if picture is not None:
                await self._send(picture)
                continue
            if self.player.closed:
                self._last = ("The session has ended.", WRONG)
            elif self.player.outbox.overrun:
                self._last = ("This page does not read what it is told.", WRONG)
            else:
                await wait_for(self.changed, wait)
        await _refuse(self.socket, *self._last)

    async def _send(self, picture: Picture) -> None:
        self.studio.worker.wake()
        self._number += 1
        self._under_way = picture
        await self.socket.send_bytes(await asyncio.to_thread(pack, self._number, picture))


async def wait_for(event: asyncio.Event, seconds: float | None) -> None:
    """Until the event is set, or for so many seconds."""
    with anyio.move_on_after(seconds):
        await event.wait()


async def _refuse(socket: WebSocket, why: str, code: int) -> None:
    """Say why in words, and as much of it as a close frame holds."""
    await socket.send_text(json.dumps({"say": "refused", "why": why, "end": True}))
    await socket.close(code, why.encode()[:120].decode(errors="ignore"))
