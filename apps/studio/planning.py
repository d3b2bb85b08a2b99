"""The planner of a page: what a model would hold, by the functions of `streamgen plan`."""

import asyncio
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from streamgen.cli.plan import PlanAsked, planned
from streamgen.errors import UsageError
from streamgen.models.registry import registry

from .studio import Studio


def planning(app: FastAPI, studio: Studio) -> None:
    """Only models by name: no path of this machine can be asked about."""

    @app.get("/plan")
    async def plan(
        model: str,
        sequences: int = 1,
        tokens: int | None = None,
        shared: int = 0,
        window: int | None = None,
        sink: int | None = None,
        seconds: float | None = None,
        dtype: str | None = None,
        memory: str | None = None,
    ) -> Response:
        asked = PlanAsked(
            model, tokens, sequences, shared, window, sink, None, None, None, None, seconds, dtype, memory
        )
        return JSONResponse(await asyncio.wrap_future(studio.worker.call(lambda: _planned(studio, asked))))

    @app.get("/plan/models")
    async def models() -> Response:
        return JSONResponse(names(studio))


def names(studio: Studio) -> list[str]:
    """What can be planned: the bundled models, and those that this studio was started with."""
    bundled = [name for name, entry in registry().items() if entry.folder is not None]
    return list(dict.fromkeys([*(slot.name for slot in studio.shelf.slots.values()), *bundled]))


def _planned(studio: Studio, asked: PlanAsked) -> dict[str, Any]:
    """On the worker's thread: models are built without weights, and no other may be built meanwhile."""
    if asked.model not in names(studio):
        raise UsageError(f"{asked.model[:40]!r} is not here; plans are made for {', '.join(names(studio))}.")
    loading = [slot.name for slot in studio.shelf.slots.values() if slot.state in ("waiting", "loading")]
    if loading:
        raise UsageError(f"{', '.join(loading)} still loads; plan when every model is there.")
    return planned(asked)[1]
