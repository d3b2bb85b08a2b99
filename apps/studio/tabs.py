"""The tabs that open sessions: whose model each uses, who plays it, and what its page knows of the model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .image_player import ImagePlayer
from .player import Player
from .wire import Words
from .world_player import WorldPlayer


@dataclass(frozen=True)
class Tab:
    """One tab. `facts` are read off a model that is ready."""

    model: str  # the slot that it plays
    player: Callable[..., Player]
    facts: Callable[[Any], Words]


def _world(pipeline: Any) -> Words:
    actions = pipeline.parts.actions
    return {
        "keys": sorted(actions.obeyed),
        "mouse": bool(actions.mouse),
        "openings": sorted(pipeline.parts.openings),
    }


def _image(pipeline: Any) -> Words:
    settings = pipeline.settings
    return {"classes": list(settings.classes.names), "presets": list(settings.presets)}


TABS = {
    "world": Tab("world", WorldPlayer, _world),
    "video": Tab("video", WorldPlayer, _world),
    "image": Tab("image", ImagePlayer, _image),
}
