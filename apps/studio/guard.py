"""Who may come in, and with how much: the token, the origin of sockets, and the size of uploads."""

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .settings import StudioSettings

COOKIE = "streamgen_token"
REFUSED = 1008  # close code of RFC 6455
NO_TOKEN = "This studio asks for a token; open the address that `streamgen demo` printed, with ?token= in it."
ELSEWHERE = "This socket was opened by a page of another site, which may not play here."


class Guard:
    """Wraps the whole application, sockets included."""

    def __init__(self, app: ASGIApp, settings: StudioSettings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not self._knows_token(scope, headers):
            await _refuse(scope, receive, send, 401, NO_TOKEN)
        elif _from_elsewhere(scope, headers):
            await _refuse(scope, receive, send, 403, ELSEWHERE)
        elif scope["type"] == "http":
            await self._bounded(scope, receive, self._remembering(scope, send))
        else:
            await self.app(scope, receive, send)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a body that is too large: by its announced length, or when that many bytes have come."""
        most, come = self.settings.upload, 0
        too_large = f"The upload is larger than {most} bytes, which is the most that this studio takes."

        async def counted() -> Message:
            nonlocal come
            message = await receive()
            come += len(message.get("body", b""))
            if come > most:
                raise HTTPException(413, too_large)
            return message

        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdecimal() and int(announced) > most:
            await _refuse(scope, receive, send, 413, too_large)
        else:
            await self.app(scope, counted, send)

    def _knows_token(self, scope: Scope, headers: Headers) -> bool:
        token = self.settings.token
        if token is None:
            return True
        given = [*_query(scope), headers.get("authorization", "").removeprefix("Bearer ")]
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None:
            given.append(cookie.value)
        return any(hmac.compare_digest(one.encode(), token.encode()) for one in given)

    def _remembering(self, scope: Scope, send: Send) -> Send:
        """A browser that brought the token in its address keeps it as a cookie."""
        token = self.settings.token
        if token is None or token not in _query(scope):
            return send

        async def remember(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"
                MutableHeaders(scope=message).append("set-cookie", cookie)
            await send(message)

        return remember


def _query(scope: Scope) -> list[str]:
    return parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])


def _from_elsewhere(scope: Scope, headers: Headers) -> bool:
    """Browsers say which page opens a socket or posts; programs do not, and need not."""
    origin = headers.get("origin")
    asks_to_act = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD", "OPTIONS")
    return asks_to_act and origin is not None and urlsplit(origin).netloc != headers.get("host")


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": REFUSED, "reason": why[:120]})
        return
    await PlainTextResponse(why + "\n", status)(scope, receive, send)
