"""The tabs that open sessions: whose model each uses, who plays it, and what its page knows of the model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .image_player import ImagePlayer
from .player import Player
from .text_player import TextPlayer
from .wire import Words
from .world_player import WorldPlayer


@dataclass(frozen=True)
class Tab:
    """One tab. `facts` are read off a model that is ready."""

    model: str  # the slot that it plays
    player: Callable[..., Player]
    facts: Callable[[Any], Words]


def _ask_player(*given: Any) -> Player:
    """torch comes with this player, and the page is not to wait for torch."""
    from .ask_player import AskPlayer

    return AskPlayer(*given)


def _replay_player(*given: Any) -> Player:
    """As above."""
    from .replay_player import ReplayPlayer

    return ReplayPlayer(*given)


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


def _ask(pipeline: Any) -> Words:
    from streamgen.pipelines.videoqa_memory import NAMES

    settings = pipeline.parts.settings
    return {"memories": list(NAMES), "budget": settings.budget, "fps": settings.fps}


def _text(model: Any) -> Words:
    from .text_model import TEXTS

    return {
        "draft": model.draft is not None,
        "documents": model.documents is not None,
        "longest": model.model.longest,
        "texts": TEXTS,
    }


TABS = {
    "world": Tab("world", WorldPlayer, _world),
    "video": Tab("video", WorldPlayer, _world),
    "image": Tab("image", ImagePlayer, _image),
    "ask": Tab("ask", _ask_player, _ask),
    "text": Tab("text", TextPlayer, _text),
    "replay": Tab("world", _replay_player, lambda pipeline: {}),
}
