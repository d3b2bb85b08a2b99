"""What stands at /: a small page at once, and the Gradio page as soon as it is built."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from .shelf import sentence


class Front:
    """Importing Gradio takes seconds; a browser that comes earlier waits on a page that says so."""

    def __init__(self, build: Callable[[], Starlette], waiting: Path) -> None:
        self.trouble = ""
        self._build = build
        self._waiting = waiting
        self._page: ASGIApp | None = None
        self._lifespan = AsyncExitStack()

    @property
    def ready(self) -> bool:
        return self._page is not None

    async def open(self) -> None:
        """Build the page in a thread and start it in this loop."""
        try:
            page = await asyncio.to_thread(self._build)
            await self._lifespan.enter_async_context(page.router.lifespan_context(page))
        except Exception as error:
            self.trouble = sentence(error)
            return
        self._page = page

    async def close(self) -> None:
        await self._lifespan.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._page is not None:
            await self._page(scope, receive, send)
            return
        answer: Response = JSONResponse({"waiting": True, "trouble": self.trouble}, 503)
        if scope["path"] in ("/", ""):
            answer = FileResponse(self._waiting, headers={"cache-control": "no-store"})
        elif scope["path"] == "/favicon.ico":
            answer = Response(status_code=204)
        await answer(scope, receive, send)
