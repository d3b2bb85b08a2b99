"""A session in a folder: its tokens, the frames that wait, and all it knows. Bit for bit.

cache.safetensors is a snapshot of the cache, frames.safetensors the waiting frames, session.json the rest.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from streamgen.errors import UsageError
from streamgen.kv.hierarchical import Hierarchical
from streamgen.pipelines.videoqa_log import Counts, Eviction, Exchange, Told
from streamgen.pipelines.videoqa_memory import Full, Memory, Room, Uniform, Window, name_of
from streamgen.pipelines.videoqa_room import StreamRoom

FORMAT = "streamgen-videoqa-1"
CACHE, FRAMES, SESSION = "cache.safetensors", "frames.safetensors", "session.json"
_MEMORIES: dict[str, Any] = {"hermes": Hierarchical, "window": Window, "uniform": Uniform, "full": Full}


@dataclass(frozen=True)
class Saved:
    """A session as it was written."""

    memory: Memory
    room: Room
    keeper: dict[str, list[int]]
    told: Told
    cache: Path


def save_session(path: Path, room: StreamRoom, told: Told) -> None:
    """Write all or nothing: a folder that is there is replaced only when the new one is complete."""
    if path.exists() and not (path / SESSION).is_file():
        raise UsageError(f"{path} is there and holds no session; name a new folder.")
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    room.save(partial / CACHE)
    frames = {str(number): torch.from_numpy(frame.copy()) for number, frame, _ in told.pending}
    save_file(frames, partial / FRAMES)
    (partial / SESSION).write_text(json.dumps(_facts(room, told), ensure_ascii=False), encoding="utf-8")
    shutil.rmtree(path, ignore_errors=True)
    os.replace(partial, path)


def read_session(path: Path) -> Saved:
    """What `save_session` wrote."""
    file = path / SESSION
    facts = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise UsageError(f"{path} holds no session ({FORMAT}); save one there first.")
    frames = load_file(path / FRAMES)
    told = Told(
        Counts(**facts["counts"]),
        [Exchange(**_tuples(exchange)) for exchange in facts["history"]],
        [Eviction(**_tuples(eviction)) for eviction in facts["evictions"]],
        [(number, frames[str(number)].numpy(), seconds) for number, seconds in facts["pending"]],
        facts["steer"],
    )
    memory = _MEMORIES[facts["memory"]](**facts["settings"])
    return Saved(memory, Room(**facts["room"]), facts["keeper"], told, path / CACHE)


def _facts(room: StreamRoom, told: Told) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "checkpoint": room.parts.name,
        "memory": name_of(room.memory),
        "settings": asdict(room.memory),
        "room": asdict(room.room),
        "keeper": room.keeper.state,
        "counts": asdict(told.counts),
        "history": [asdict(exchange) for exchange in told.history],
        "evictions": [asdict(eviction) for eviction in told.evictions],
        "pending": [[number, seconds] for number, _, seconds in told.pending],
        "steer": told.steer,
    }


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists only."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
