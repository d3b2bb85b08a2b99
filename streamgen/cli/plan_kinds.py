"""Plans of every kind of model: what the real pipelines would allocate, without allocating it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from streamgen.cli import backend
from streamgen.cli.facts import facts_of
from streamgen.cli.plan import PlanAsked
from streamgen.cli.request import parse_dtype
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.runtime.memory import Share
from streamgen.runtime.plan import Plan, dense_cache, largest, times

MOST = 2**20  # sequences
FOREIGN = {
    "text": ("sink", "size", "seconds"),
    "image": ("tokens", "shared", "gqa", "page_size", "chunk", "window", "sink", "size", "seconds"),
    "video": ("tokens", "shared", "gqa", "page_size", "chunk"),
}
FOREIGN["videoqa"] = FOREIGN["image"][1:]
FOREIGN["world"] = FOREIGN["video"]


@dataclass(frozen=True)
class Planner:
    """Plans for any number of sequences of one settled wish."""

    settled: dict[str, object]
    plan: Callable[[int], Plan]
    most_tokens: Callable[[int, int], int] | None = None  # of a budget and a number of sequences

    def limits(self, budget: int, sequences: int) -> dict[str, object]:
        """Whether it fits, and how much would."""
        found: dict[str, object] = {
            "budget": budget,
            "fits": self.plan(sequences).fits(budget),
            "most_sequences": self.most(budget),
        }
        if self.most_tokens is not None:
            found["most_tokens"] = self.most_tokens(budget, sequences)
        return found

    def most(self, budget: int) -> int:
        """How many sequences fit."""
        return largest(lambda sequences: self.plan(sequences).fits(budget), MOST)


def planner_of(asked: PlanAsked) -> Planner:
    """What was asked, settled for the kind of model that it names."""
    backend.quieten_libraries()
    folder = backend.folder_of(asked.model)
    kind = kind_of(folder)
    wrong = [name for name in FOREIGN[kind] if getattr(asked, name)]
    if wrong:
        option = f"--{wrong[0].replace('_', '-')}"
        raise UsageError(
            f"{option} says nothing of a model of kind {kind!r}, such as {asked.model}; drop it."
        )
    named = parse_dtype(asked.dtype) or backend.usual_dtype(backend.pick_device(None))
    settle = {"text": _text, "image": _image, "video": _video, "world": _world, "videoqa": _videoqa}[kind]
    planner = settle(asked, folder, getattr(torch, named))
    return replace(planner, settled={"pipeline": kind, "dtype": named, **planner.settled})


def kind_of(folder: Path) -> str:
    """Which pipeline a checkpoint is for."""
    if (folder / "streamgen.json").is_file():
        kind = str(facts_of(folder / "streamgen.json").get("pipeline"))
        if kind not in FOREIGN:
            raise UsageError(
                f"{folder} is for the pipeline {kind!r}; plans are made for {', '.join(FOREIGN)}."
            )
        return kind
    if folder.name == "config.json":
        return "text"
    if (folder / "config.json").is_file():
        return "videoqa" if "vision_config" in facts_of(folder / "config.json") else "text"
    if folder.is_file() or list(folder.glob("var*")):
        return "image"
    raise UsageError(f"{folder} is no checkpoint; give a folder with a streamgen.json or a config.json.")


def _text(asked: PlanAsked, folder: Path, dtype: torch.dtype) -> Planner:
    from streamgen.cli.plan_text import TextWish

    wish = TextWish.of(asked, folder, dtype)
    return Planner(wish.settled(), wish.plan, wish.most_tokens)


def _video(asked: PlanAsked, folder: Path, dtype: torch.dtype) -> Planner:
    from streamgen.cli.plan_video import StreamWish, rehearsed_video

    return _streams(*rehearsed_video(folder, dtype, StreamWish.of(asked)))


def _world(asked: PlanAsked, folder: Path, dtype: torch.dtype) -> Planner:
    from streamgen.cli.plan_video import StreamWish, rehearsed_world

    return _streams(*rehearsed_world(folder, dtype, StreamWish.of(asked)))


def _videoqa(asked: PlanAsked, folder: Path, dtype: torch.dtype) -> Planner:
    """Sequences are sessions; --tokens is what each layer keeps of the video."""
    from streamgen.cli.plan_videoqa import rehearsed_videoqa

    return _streams(*rehearsed_videoqa(folder, dtype, asked.tokens))


def _streams(settled: dict[str, object], alone: Plan) -> Planner:
    """Streams share nothing but the weights."""
    return Planner(settled, partial(_multiplied, alone))


def _multiplied(alone: Plan, sequences: int) -> Plan:
    formula = Share(
        "formula",
        alone.formula.nbytes * sequences,
        alone.formula.how.replace("x 1 sequences", f"x {sequences} sequences"),
    )
    pools, each = (tuple(times(share, sequences) for share in part) for part in (alone.pools, alone.each))
    return Plan(sequences, formula, alone.once, pools, each)


def _image(asked: PlanAsked, folder: Path, dtype: torch.dtype) -> Planner:
    """Sequences are pictures; guidance computes each of them twice."""
    from streamgen.pipelines.image import ImagePipeline

    pipe = ImagePipeline.from_pretrained(folder, dtype=dtype, memory=Arena())
    config = pipe.model.config
    once = tuple(
        Share(f"{name} weights", nbytes, "as they are held")
        for name, nbytes in (("transformer", held(pipe.model)), ("vae", held(pipe.vae)))
    )

    def plan(pictures: int) -> Plan:
        formula = dense_cache(config.depth, config.heads, config.head_dim, config.tokens, 2 * pictures, dtype)
        shares = pipe.memory_bytes(pictures).items()
        pools = tuple(Share(f"cache: {name}", nbytes, f"{2 * pictures} sequences") for name, nbytes in shares)
        return Plan(pictures, formula, once, pools, ())

    return Planner({"size": list(pipe.size), "tokens": config.tokens, "guided": True}, plan)


def held(model: Any) -> int:
    """Bytes of all parameters and buffers, shared ones once."""
    tensors = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.nbytes for tensor in tensors.values())
