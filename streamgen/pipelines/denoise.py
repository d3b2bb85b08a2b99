"""A stream of latents, chunk by chunk: stage, denoise, remember, commit.

Shapes: C latent channels, F latent frames of a chunk, h and w latent size, T tokens, P constant planes.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from streamgen.attention.check import checked
from streamgen.attention.contract import Need
from streamgen.kv.cache import KVCache
from streamgen.kv.stage import Stage
from streamgen.models.attend import Attend
from streamgen.models.wan import CausalWan, TextKV
from streamgen.models.wan_rope import Rope
from streamgen.sampling.flow import FlowSchedule, kept_noise, renoise

Positions = Literal["absolute", "window"]
Fresh = Callable[[int], Tensor]  # number of a step -> the noise [1, C, F, h, w] mixed in before it


@dataclass(frozen=True)
class StreamRules:
    """How a stream remembers: the first `sink` latent frames and the last `window`, None = all."""

    window: int | None
    sink: int
    context_noise: float
    positions: Positions

    def __post_init__(self) -> None:
        if self.positions not in ("absolute", "window"):
            raise ValueError(f"Positions are 'absolute' or 'window', not '{self.positions}'.")
        if self.sink < 0 or (self.window is not None and self.window < 1):
            raise ValueError(
                f"A sink of {self.sink} and a window of {self.window} frames remember nothing new; "
                "give a sink of at least 0 and a window of at least 1."
            )

    @property
    def held(self) -> int | None:
        """The most latent frames that are remembered."""
        return None if self.window is None else self.sink + self.window


def denoise(
    model: CausalWan,
    schedule: FlowSchedule,
    x: Tensor,
    fresh: Fresh,
    text: TextKV,
    rope: Rope,
    attends: Sequence[Attend],
    planes: Tensor | None = None,
) -> Tensor:
    """The clean latents [1, C, F, h, w] that a chunk of noise x becomes; one forward a step."""
    clean, before = x, 1.0
    for step, (t, sigma) in enumerate(zip(schedule.timesteps, schedule.sigmas, strict=True)):
        if step:
            noise = fresh(step) if schedule.sampler == "renoise" else kept_noise(x, clean, before)
            x = renoise(clean, noise, sigma)
        before = sigma
        out = model(with_planes(x, planes), torch.tensor([t]), text, rope, attends)
        clean = schedule.x0(x, out.float(), sigma)
    return clean


def with_planes(x: Tensor, planes: Tensor | None) -> Tensor:
    """x [B, C, F, h, w] with planes [P, h, w], or [P, F, h, w] that differ by frame, as further channels."""
    if planes is None:
        return x
    still = (planes[:, None] if planes.ndim == 3 else planes)[None].expand(x.shape[0], -1, x.shape[2], -1, -1)
    return torch.cat((x, still.to(x.dtype)), dim=1)


def coordinate_planes(
    axes: tuple[Literal["y", "x"], ...], size: tuple[int, int], device: torch.device
) -> Tensor | None:
    """Where a latent cell lies in the picture, [P, h, w] from -1 to 1, or None where the model wants none."""
    if not axes:
        return None
    y, x = torch.meshgrid(*(torch.linspace(-1, 1, length) for length in size), indexing="ij")
    return torch.stack([{"y": y, "x": x}[axis] for axis in axes]).to(device)


class LatentStream:
    """One stream of latents over a cache that somebody else opened and closes."""

    def __init__(
        self,
        model: CausalWan,
        schedule: FlowSchedule,
        cache: KVCache,
        attention: str,
        rules: StreamRules,
        size: tuple[int, int],
        planes: Tensor | None = None,
    ) -> None:
        self.model = model
        self.schedule = schedule
        self.cache = cache
        self.attention = attention
        self.rules = rules
        self.size = size
        self.planes = planes
        self.frame_tokens = model.frame_tokens(*size)
        self.frame = 0  # number of the next latent frame
        self.sink_frame = 0  # number of the frame where the keys of the sink stand now
        self.kernel = attention  # the name; of the one that was chosen, once a chunk was planned

    def plan(self, stage: Stage) -> Sequence[Attend]:
        """The attention sites of a staged chunk; a kernel is checked the first time it meets such a need."""
        kernel = checked(self.attention, Need.of([stage], self.model.heads))
        self.kernel = kernel.name
        return kernel.plan([stage], self.model.heads)

    @property
    def remembered(self) -> int:
        """Latent frames in the cache."""
        return self.cache.tokens // self.frame_tokens

    def fork(self) -> "LatentStream":
        """The same past with a future of its own; the caller closes the cache of the fork too."""
        twin = copy(self)
        twin.cache = self.cache.fork()
        return twin

    def generate(self, x: Tensor, fresh: Fresh, text: TextKV) -> Tensor:
        """Turn a chunk of noise x [1, C, F, h, w] into the next latents of the stream."""
        frames = x.shape[2]
        self._renumber(frames)
        rope = self._rope(frames, self.frame)
        with self.cache.stage(frames * self.frame_tokens) as stage:
            attends = self.plan(stage)
            clean = denoise(self.model, self.schedule, x, fresh, text, rope, attends, self.planes)
            self._clean_pass(clean, self.rules.context_noise, text, rope, attends)
            stage.commit()
        self.frame += frames
        return clean

    def take(self, latents: Tensor, text: TextKV) -> None:
        """Remember given latents [1, C, F, h, w] as the next chunk of the stream."""
        frames = latents.shape[2]
        self._renumber(frames)
        rope = self._rope(frames, self.frame)
        with self.cache.stage(frames * self.frame_tokens) as stage:
            attends = self.plan(stage)
            self._clean_pass(latents, 0.0, text, rope, attends)
            stage.commit()
        self.frame += frames

    def rewrite(self, latents: Tensor, text: TextKV, kept: int) -> None:
        """Compute the memory of the last n frames again, given their latents [1, C, n, h, w], and a new text.

        All n frames attend to each other and to what is remembered before them. The oldest `kept` of them
        keep the memory they have (a sink).
        """
        frames = latents.shape[2]
        tokens = (frames - kept) * self.frame_tokens
        rope = self._rope(frames, self.frame - frames)
        with self.cache.stage(tokens, replace=tokens) as stage:
            attends = [Tail(attend, tokens) for attend in self.plan(stage)]
            self._clean_pass(latents, self.rules.context_noise, text, rope, attends)
            stage.commit()
        if not kept and frames == self.remembered:
            self.sink_frame = self.frame - frames

    def sink_shift(self, frames: int = 0) -> int:
        """How far the sink has to move up when `frames` more have come, so as to touch the window."""
        held = self.remembered + frames
        if self.rules.held is not None:
            held = min(held, self.rules.held)
        return self.frame + frames - held - self.sink_frame

    def _renumber(self, frames: int) -> None:
        """Endless positions: the sink moves up to the window, so distances never grow beyond it."""
        shift = self.sink_shift(frames)
        if self.rules.positions == "window" and self.rules.sink and shift:
            self.cache.reposition(slice(0, self.rules.sink * self.frame_tokens), self.model.rotate, shift)
            self.sink_frame += shift

    def _rope(self, frames: int, start: int) -> Rope:
        return self.model.rope(frames, *self.size, start=start)

    def _clean_pass(
        self, latents: Tensor, t: float, text: TextKV, rope: Rope, attends: Sequence[Attend]
    ) -> None:
        self.model.remember(with_planes(latents, self.planes), torch.tensor([t]), text, rope, attends)


@dataclass(frozen=True)
class Tail:
    """An `Attend` whose stage holds only the last tokens of the chunk: the others ask and are forgotten."""

    attend: Attend
    tokens: int

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.attend(q, k[:, -self.tokens :], v[:, -self.tokens :])

    def store(self, k: Tensor, v: Tensor) -> None:
        self.attend.store(k[:, -self.tokens :], v[:, -self.tokens :])
