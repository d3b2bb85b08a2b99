"""The one application of a studio: live sockets, files of the page, numbers, and the page itself."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import FileResponse, JSONResponse, Response
from PIL import Image
from starlette.applications import Starlette
from starlette.staticfiles import StaticFiles

from streamgen.errors import UsageError

from .front import Front
from .guard import Guard
from .inbox import inbox
from .link import link, threadsafe
from .mjpeg import Watch
from .planning import planning
from .studio import AbsentError, Studio
from .wire import read


def application(studio: Studio, build: Callable[[], Starlette]) -> Guard:
    """Everything on one port; `build` makes the page and may take its time."""
    front = Front(build, studio.settings.static / "waiting.html")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        studio.start()
        opening = asyncio.create_task(_open(front, studio))
        yield
        opening.cancel()
        await asyncio.to_thread(studio.stop)
        await front.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(UsageError, _refusal)
    _live(app, studio)
    inbox(app, studio)
    planning(app, studio)
    _numbers(app, studio, front)
    app.mount("/studio", StaticFiles(directory=studio.settings.static), "static")
    app.mount("/", front, "page")
    return Guard(app, studio.settings)


async def _open(front: Front, studio: Studio) -> None:
    """The page first: it is sooner there, and tells how the models are coming along."""
    await front.open()
    studio.shelf.start()


def _live(app: FastAPI, studio: Studio) -> None:
    """Sockets, and what stands in for them."""

    @app.websocket("/live/{tab}")
    async def live(socket: WebSocket, tab: str) -> None:
        await link(studio, socket, tab)

    @app.get("/watch/{tab}.mjpeg")
    async def watch(tab: str, key: str | None = None, prompt: str | None = None) -> Response:
        changed = asyncio.Event()
        player = studio.open(tab, threadsafe(changed), key)
        if prompt is not None:
            studio.hear(player, {"do": "start", "prompt": prompt})
        return Watch(studio, player, changed)

    @app.post("/say/{key}")
    async def say(key: str, request: Request) -> Response:
        studio.hear(studio.player(key), read((await request.body()).decode(errors="replace")))
        return JSONResponse({})

    @app.get("/notes/{key}")
    async def notes(key: str) -> Response:
        return JSONResponse(studio.player(key).outbox.take())

    @app.get("/recordings/{key}/{name}")
    async def recording(key: str, name: str) -> Response:
        files = studio.player(key).files
        if name not in files:
            raise AbsentError("There is no such recording; it goes when its session ends.")
        return FileResponse(files[name], filename=name)


def _numbers(app: FastAPI, studio: Studio, front: Front) -> None:
    """What the page asks for now and then."""

    @app.get("/loading")
    async def loading() -> Response:
        page = {"ready": front.ready, "trouble": front.trouble}
        return JSONResponse({"page": page, "models": studio.shelf.record()})

    @app.get("/memory")
    async def memory() -> Response:
        return JSONResponse(await asyncio.wrap_future(studio.memory()))

    @app.get("/kernels")
    async def kernels() -> Response:
        return JSONResponse(await asyncio.to_thread(studio.kernels))

    @app.get("/openings/{tab}/{name}.png")
    async def opening(tab: str, name: str) -> Response:
        slot = studio.shelf.slots.get(tab)
        pictures = {} if slot is None or slot.pipeline is None or tab == "image" else slot.pipeline.openings
        if name not in pictures:
            raise AbsentError(f"There is no opening {name[:40]!r} of {tab[:40]!r}.")
        return Response(await asyncio.to_thread(_png, pictures[name]), media_type="image/png")


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()


async def _refusal(request: Request, error: Any) -> Response:
    return JSONResponse({"say": "refused", "why": str(error)}, 404 if isinstance(error, AbsentError) else 400)
