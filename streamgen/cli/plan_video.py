"""Plans of videos and worlds: a session on the meta device, whose pool and decoder are then known."""

from dataclasses import dataclass
from pathlib import Path

import torch

from streamgen.cli.plan import PlanAsked
from streamgen.cli.rehearsal import hollow_parts, shares_of
from streamgen.cli.request import parse_size
from streamgen.models.wan import CausalWan
from streamgen.pipelines.settings import VideoSettings
from streamgen.pipelines.video import VideoPipeline
from streamgen.pipelines.world import WorldPipeline
from streamgen.pipelines.world_parts import WorldParts
from streamgen.pipelines.world_settings import WorldSettings
from streamgen.runtime.memory import Share
from streamgen.runtime.plan import Plan, dense_cache

Rehearsed = tuple[dict[str, object], Plan]


@dataclass(frozen=True)
class StreamWish:
    """What differs from what the checkpoint says; seconds None is endless."""

    seconds: float | None
    size: tuple[int, int] | None
    window: int | None
    sink: int | None

    @classmethod
    def of(cls, asked: PlanAsked) -> "StreamWish":
        return cls(asked.seconds, parse_size(asked.size), asked.window, asked.sink)


def rehearsed_video(folder: Path, dtype: torch.dtype, asked: StreamWish) -> Rehearsed:
    """One video: endless, or of so many seconds."""
    settings = VideoSettings.load(folder)
    parts = hollow_parts(folder, settings, "cpu", "auto", dtype)
    pipeline = VideoPipeline(parts)
    wish = pipeline.request("", seconds=asked.seconds, size=asked.size, window=asked.window, sink=asked.sink)
    with pipeline.open(wish) as session:
        shares = shares_of(parts, folder, session.pool, session.latent_size, session.vae_state)
        latents = frames_of(asked.seconds, settings, parts.vae.time_scale, wish.window, wish.sink)
        formula = _formula(parts.model, session.latent_size, latents)
    settled: dict[str, object] = {
        "size": list(wish.size),
        "seconds": asked.seconds,
        "window": wish.window,
        "sink": wish.sink,
    }
    return settled, _plan(formula, shares)


def rehearsed_world(folder: Path, dtype: torch.dtype, asked: StreamWish) -> Rehearsed:
    """One world that can take back as many chunks as `start()` lets it."""
    settings = WorldSettings.load(folder)
    video = hollow_parts(folder, settings.video, "cpu", "auto", dtype)
    parts = WorldParts(folder.name, video, settings.actions)
    with WorldPipeline(parts).start("", size=asked.size, window=asked.window, sink=asked.sink) as session:
        wish = session.request
        latent_size, pool = parts.latent_size(wish), session.memory.cache.pool
        shares = shares_of(video, folder, pool, latent_size, session.moment.vae)
        latents = frames_of(asked.seconds, settings.video, video.vae.time_scale, wish.window, wish.sink)
        formula = _formula(video.model, latent_size, latents)
    settled: dict[str, object] = {
        "size": list(wish.size),
        "window": wish.window,
        "sink": wish.sink,
        "undo": wish.undo,
    }
    return settled, _plan(formula, shares)


def frames_of(
    seconds: float | None, settings: VideoSettings, time_scale: int, window: int | None, sink: int
) -> int:
    """Latent frames that the formula counts: all of a video, or what an endless one remembers."""
    if seconds is None:
        assert window is not None, "an endless stream without a window was not refused"
        return window + sink
    frames = max(1, round(seconds * settings.fps))
    return -(-(frames - 1) // time_scale) + 1


def _formula(model: CausalWan, latent_size: tuple[int, int], latents: int) -> Share:
    tokens = latents * model.frame_tokens(*latent_size)
    return dense_cache(model.layers, model.heads, model.head_dim, tokens, 1, model.dtype)


def _plan(formula: Share, shares: list[Share]) -> Plan:
    once = tuple(share for share in shares if share.what.endswith(" weights"))
    pools = tuple(share for share in shares if share.what == "cache")
    each = tuple(share for share in shares if share not in once and share not in pools)
    return Plan(1, formula, once, pools, each)
