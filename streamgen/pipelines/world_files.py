"""A world in a folder: its pages, its tensors, and what was asked of it. Bit for bit.

cache.safetensors is a snapshot of the cache, state.safetensors the tensors of a moment, world.json the rest.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.cache import KVCache
from streamgen.kv.snapshot import save
from streamgen.models.wan import CausalWan
from streamgen.models.wan_vae import VaeState
from streamgen.pipelines.world_log import ControlLog, read_json
from streamgen.pipelines.world_moment import Moment
from streamgen.pipelines.world_prompt import Transition

FORMAT = "streamgen-world-1"
CACHE, STATE, WORLD = "cache.safetensors", "state.safetensors", "world.json"
_COUNTS = ("prompt", "index", "frame", "latent", "sink", "block", "events")


def save_world(cache: KVCache, moment: Moment, log: ControlLog, path: Path) -> None:
    """Write all or nothing: a folder that is there is replaced only when the new one is complete."""
    if path.exists() and not (path / WORLD).is_file():
        raise UsageError(f"{path} is there and holds no world; name a new folder.")
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save(cache, partial / CACHE)
    save_file({name: t.contiguous().cpu() for name, t in _tensors(moment).items()}, partial / STATE)
    (partial / WORLD).write_text(json.dumps(_facts(moment, log), ensure_ascii=False), encoding="utf-8")
    shutil.rmtree(path, ignore_errors=True)
    os.replace(partial, path)


def read_log(path: Path) -> ControlLog:
    """What was asked of a saved world."""
    return ControlLog.of(_read(path)["log"], str(path))


def read_moment(path: Path, model: CausalWan) -> Moment:
    """Where a saved world stands; the text keys and values are computed again."""
    facts, tensors = _read(path), load_file(path / STATE)
    tensors = {name: tensor.to(model.device) for name, tensor in tensors.items()}
    features = tuple(
        tensors[f"vae.{number}"] if kind == "tensor" else kind
        for number, kind in enumerate(facts["features"])
    )
    moving = None
    if facts["transition"] is not None:
        moving = Transition(tensors["start"], tensors["end"], *facts["transition"])
    return Moment(
        **{name: facts[name] for name in _COUNTS},
        embeds=tensors["embeds"],
        text=model.text(tensors["embeds"]),
        vae=VaeState(features, facts["decoded"]),
        recent=tensors["recent"],
        acts=tensors["acts"],
        transition=moving,
    )


def _read(path: Path) -> dict[str, Any]:
    facts = read_json(path / WORLD) if (path / WORLD).is_file() else None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise UsageError(f"{path} holds no world ({FORMAT}); save a session there first.")
    return facts


def _tensors(moment: Moment) -> dict[str, Tensor]:
    tensors = {"embeds": moment.embeds, "recent": moment.recent, "acts": moment.acts}
    if moment.transition is not None:
        tensors |= {"start": moment.transition.start, "end": moment.transition.end}
    features = enumerate(moment.vae.features)
    return tensors | {f"vae.{number}": f for number, f in features if isinstance(f, torch.Tensor)}


def _facts(moment: Moment, log: ControlLog) -> dict[str, Any]:
    moving = moment.transition
    return {
        "format": FORMAT,
        **{name: getattr(moment, name) for name in _COUNTS},
        "features": ["tensor" if isinstance(f, torch.Tensor) else f for f in moment.vae.features],
        "decoded": moment.vae.frames,
        "transition": None if moving is None else [moving.over, moving.done],
        "log": log.record(),
    }
