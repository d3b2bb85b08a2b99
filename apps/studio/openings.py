"""What a world begins from, and what its page knows of it then."""

from typing import Any

from streamgen.errors import UsageError

from .picture_file import picture_in
from .player import Player
from .uploads import upload_of
from .wire import Words


def start_picture(player: Player, words: Words) -> Any:
    """The picture that was asked for: one of the checkpoint, one that the page brought, or none."""
    opening, upload = words.get("opening"), words.get("upload")
    if opening and upload:
        raise UsageError("A world begins from one picture: an opening of the model, or an upload.")
    if upload:
        return picture_in(upload_of(player, upload).read_bytes())
    return _opening(player.slot.pipeline, opening)


def _opening(pipeline: Any, name: str | None) -> Any:
    """The picture of this name that came with the checkpoint."""
    if not name:
        return None
    if name not in pipeline.openings:
        known = ", ".join(pipeline.openings) or "none: it begins from words only"
        raise UsageError(f"There is no opening {name!r}; this model has {known}.")
    return pipeline.openings[name]


def facts_of(world: Any) -> dict[str, Any]:
    """What the page shows of a world that was started."""
    request, video = world.request, world.parts.video
    return {
        "size": list(request.size),
        "window": request.window,
        "sink": request.sink,
        "kernel": video.attention,
        "model_fps": video.settings.fps,
        "keys": sorted(world.parts.actions.obeyed),
        "undo": request.undo,
    }
