"""What a page brings by HTTP: files for its session, and pictures of its camera, one request each."""

import asyncio

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from .picture_file import picture_in
from .studio import Studio
from .uploads import keep


def inbox(app: FastAPI, studio: Studio) -> None:
    """Answers come when the file is kept, or the picture waits to be looked at."""

    @app.post("/upload/{key}")
    async def upload(key: str, request: Request) -> Response:
        return JSONResponse({"name": await keep(studio.player(key), request.stream())})

    @app.post("/camera/{key}")
    async def camera(key: str, at: float, request: Request) -> Response:
        player = studio.player(key)
        player.see(await asyncio.to_thread(picture_in, await request.body()), at)
        studio.worker.wake()
        return JSONResponse({})
