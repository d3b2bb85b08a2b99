"""Tiny random worlds: a checkpoint whose keys move four planes, and what its frames come to."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from streamgen.pipelines.world import WorldPipeline
from streamgen.pipelines.world_session import WorldSession
from tests.models import tiny

PROMPT = "a hero walks"
KEYS = {
    "up": ["KeyW", "ArrowUp"],
    "down": ["KeyS", "ArrowDown"],
    "left": ["KeyA", "ArrowLeft"],
    "right": ["KeyD", "ArrowRight"],
}
ACTIONS = {"input": "planes", "keys": KEYS, "idle": True, "exclusive": True, "mouse": 0}
WALK = ({"KeyW"}, {"KeyD"}, set(), {"ArrowLeft"}, {"KeyW"}, set())
MakeWorld = Callable[..., WorldPipeline]


def folder(path: Path, time_scale: int = 1, **changes: Any) -> Path:
    """A world checkpoint; `changes` are entries of its streamgen.json."""
    actions = changes.get("actions", ACTIONS)
    planes = len(actions["keys"]) + actions["idle"] if actions["input"] == "planes" else 0
    changed = {"pipeline": "world", "actions": actions, **changes}
    tiny.folder(path, time_scale, **changed)
    coordinates = len(changes.get("planes", []))
    transformer = tiny.transformer(in_channels=tiny.LATENTS + coordinates + planes)
    transformer.save_pretrained(path / "transformer")
    return path


def play(session: WorldSession, walk: Iterable[set[str]] = WALK) -> np.ndarray:
    """The frames of some chunks."""
    return np.concatenate([session.step(keys).frames for keys in walk])
