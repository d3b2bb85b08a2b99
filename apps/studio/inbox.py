"""What a page brings by HTTP: files for its session, and pictures of its camera, one request each."""

import asyncio
import io

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from numpy.typing import NDArray
from PIL import Image

from streamgen.errors import UsageError

from .studio import Studio
from .uploads import keep

PIXELS = 4096 * 2160  # of one picture of a camera
FORMATS = ("JPEG", "PNG", "WEBP")


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


def picture_in(data: bytes) -> NDArray[np.uint8]:
    """uint8 [H, W, 3] of a picture file."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > PIXELS:
                raise UsageError(
                    f"A picture of {image.width}x{image.height} is larger than this studio looks at: "
                    f"at most {PIXELS} pixels."
                )
            return np.array(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"{len(data)} bytes came that are no {', '.join(FORMATS)} picture.") from error
