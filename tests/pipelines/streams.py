"""Streams over the real cache, and what they would be without one."""

from typing import Any

import torch
from diffusers.models.transformers.transformer_wan import WanAttnProcessor
from torch import Tensor

from streamgen.kv.arena import Arena
from streamgen.kv.geometry import Geometry
from streamgen.kv.pool import PagePool
from streamgen.kv.retention import KeepAll, SinkWindow
from streamgen.models.wan import CausalWan
from streamgen.pipelines.denoise import LatentStream, Positions, StreamRules
from streamgen.sampling.flow import FlowSchedule, noise
from tests.models import tiny

SCHEDULE = FlowSchedule(5.0, (1000, 600), True, "flow_prediction", "renoise")


def prompt(seed: int = 0) -> Tensor:
    return torch.randn(1, 5, tiny.TEXT_DIM, generator=torch.Generator().manual_seed(seed))


def chunk_noise(index: int, step: int, frames: int, size: tuple[int, int]) -> Tensor:
    return noise(11, 0, index, step, (1, tiny.LATENTS, frames, *size))


def open_stream(
    window: int | None,
    sink: int,
    size: tuple[int, int] = (4, 6),
    attention: str = "sdpa",
    page_size: int = 8,
    ring: bool = True,
    positions: Positions = "absolute",
    frames: int = 24,
    model: CausalWan | None = None,
    schedule: FlowSchedule = SCHEDULE,
) -> LatentStream:
    """A stream of a tiny random model: bounded ones lie in a ring or in pages."""
    model = model or CausalWan(tiny.transformer())
    rules = StreamRules(window, sink, 0.0, positions)
    tokens = model.frame_tokens(*size)
    held = (rules.held or frames) * tokens
    geometry = Geometry(model.layers, model.heads, model.head_dim, page_size, model.dtype)
    pool = PagePool(Arena(), geometry, 3 * (-(-held // page_size) + 2), name="test")
    if rules.held is None:
        cache = pool.cache(KeepAll())
    else:
        retention = SinkWindow(rules.held * tokens - sink * tokens, sink * tokens)
        cache = pool.cache(retention, reserve=held if ring else 0)
    return LatentStream(model, schedule, cache, attention, rules, size)


def advance(stream: LatentStream, text: Any, index: int, frames: int) -> Tensor:
    """The next chunk from the noise of its number."""
    size = stream.size
    return stream.generate(
        chunk_noise(index, 0, frames, size), lambda step: chunk_noise(index, step, frames, size), text
    )


class Masked(WanAttnProcessor):
    """The stock processor with a mask that the stock block has no argument for."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.mask = mask

    def __call__(
        self, attn: Any, x: Tensor, text: Any = None, mask: Any = None, rotary_emb: Any = None
    ) -> Tensor:
        out: Tensor = super().__call__(attn, x, text, self.mask, rotary_emb)
        return out


def visible(chunks: list[int], window: int | None, sink: int, tokens: int) -> Tensor:
    """bool [T, T]: a chunk sees itself, the first `sink` frames and the last `window` before its end."""
    ends = torch.tensor([sum(chunks[: i + 1]) for i, frames in enumerate(chunks) for _ in range(frames)])
    frame = torch.arange(len(ends))
    past = frame[None] < ends[:, None]
    if window is not None:
        past &= (frame[None] >= ends[:, None] - window) | (frame[None] < sink)
    return past.repeat_interleave(tokens, 0).repeat_interleave(tokens, 1)


def dense_flow(model: Any, clean: list[Tensor], x: Tensor, t: float, text: Tensor, mask: Tensor) -> Tensor:
    """One stock forward over everything: clean frames at time 0, then the chunk x at time t. No cache."""
    frames = torch.cat([*clean, x], dim=2)
    tokens = mask.shape[0] // frames.shape[2]
    times = torch.zeros(1, frames.shape[2])
    times[:, frames.shape[2] - x.shape[2] :] = t
    for block in model.blocks:
        block.attn1.set_processor(Masked(mask))
    flow: Tensor = model(frames, times.repeat_interleave(tokens, dim=1), text).sample
    return flow[:, :, -x.shape[2] :]


def dense_rollout(
    chunks: list[int], text: Tensor, window: int | None, sink: int, size: tuple[int, int] = (4, 6)
) -> list[Tensor]:
    """The whole stream, recomputed from all its frames at every step by the stock model."""
    model = tiny.transformer()
    clean: list[Tensor] = []
    for index, frames in enumerate(chunks):
        mask = visible(chunks[: index + 1], window, sink, size[0] * size[1] // 4)
        x = chunk_noise(index, 0, frames, size)
        for step, (t, sigma) in enumerate(zip(SCHEDULE.timesteps, SCHEDULE.sigmas, strict=True)):
            if step:
                x = (1 - sigma) * x0 + sigma * chunk_noise(index, step, frames, size)  # noqa: F821
            x0 = x - sigma * dense_flow(model, clean, x, t, text, mask)
        clean.append(x0)
    return clean
