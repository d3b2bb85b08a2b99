"""A video session: everything one stream owns, from its pages to its place in the noise.

Shapes: C latent channels, F latent frames of a chunk, h and w latent size, T pixel frames, P planes.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np
import torch
from torch import Tensor

from streamgen.kv.geometry import Geometry
from streamgen.kv.pool import PagePool
from streamgen.kv.retention import KeepAll, Retention, SinkWindow
from streamgen.models.wan import TextKV
from streamgen.pipelines.chunk import Chunk, to_pixels
from streamgen.pipelines.denoise import LatentStream, StreamRules, coordinate_planes
from streamgen.pipelines.parts import VideoParts
from streamgen.pipelines.request import VideoRequest
from streamgen.sampling.flow import FlowSchedule, noise

PAGE_SIZE = 64
STREAM = 0  # its number in the key of the noise


class VideoSession:
    """One stream. Use it as a context manager: leaving it gives every page back."""

    def __init__(self, parts: VideoParts, request: VideoRequest) -> None:
        self.parts = parts
        self.request = request
        self.index = 0  # of the next chunk
        self.frame = 0  # number of the next pixel frame
        self.vae_state = parts.vae.decoder_state()
        width, height = request.size
        self.latent_size = (height // parts.vae.scale, width // parts.vae.scale)
        self.embeds = {
            text: parts.text([text]) for text in dict.fromkeys(text for _, text in request.prompts)
        }
        self.given = self._given()
        with ExitStack() as undo:
            self.pool = undo.enter_context(self._pool())
            self.latents = self._latent_stream()
            self._undo = undo.pop_all()
        self.prompt: str | None = None
        self.text: TextKV

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back pages and bytes; closing twice is harmless."""
        self._undo.close()

    def __iter__(self) -> Iterator[Chunk]:
        while self.request.frames is None or self.frame < self.request.frames:
            yield self.step()

    def step(self) -> Chunk:
        """Compute the next chunk."""
        clock = [time.perf_counter()]
        self._switch_prompt()
        clock.append(self._now())
        latents = self._next_latents()
        clock.append(self._now())
        frames, self.vae_state = self.parts.vae.decode(latents, self.vae_state)
        pixels = to_pixels(frames, self.index, self.parts.attention)
        clock.append(self._now())
        if self.request.frames is not None:
            pixels = pixels[: self.request.frames - self.frame]
        seconds = dict(zip(("text", "dit", "vae"), np.diff(clock).tolist(), strict=True))
        chunk = Chunk(pixels, self.index, self.frame, seconds, latents)
        self.index += 1
        self.frame += len(pixels)
        return chunk

    def _switch_prompt(self) -> None:
        """A new prompt costs its cross-attention keys and values, nothing else."""
        prompt = self.request.prompt(self.frame)
        if prompt != self.prompt:
            self.text = self.parts.model.text(self.embeds[prompt])
            self.prompt = prompt

    def _next_latents(self) -> Tensor:
        frames = self._chunk_frames()
        if self.given is not None and self.latents.frame < self.given.shape[2]:
            piece = self.given[:, :, self.latents.frame : self.latents.frame + frames]
            self.latents.take(piece, self.text)
            return piece
        return self.latents.generate(
            self._noise(0, frames), lambda step: self._noise(step, frames), self.text
        )

    def _chunk_frames(self) -> int:
        settings = self.parts.settings
        alone = settings.independent_first_frame or self.request.image is not None
        return 1 if alone and self.latents.frame == 0 else settings.chunk

    def _noise(self, step: int, frames: int) -> Tensor:
        shape = (1, self.parts.vae.channels, frames, *self.latent_size)
        return noise(self.request.seed, STREAM, self.index, step, shape).to(self.parts.model.device)

    def _given(self) -> Tensor | None:
        """The latents that the stream begins with."""
        vae = self.parts.vae
        if self.request.image is not None:
            pixels = torch.from_numpy(np.array(self.request.image)).permute(2, 0, 1)[None, :, None]
            return vae.encode(pixels.float() / 127.5 - 1, vae.encoder_state())[0].to(self.parts.model.device)
        return None if self.request.latents is None else self.request.latents.to(self.parts.model.device)

    def _pool(self) -> PagePool:
        model = self.parts.model
        tokens = model.frame_tokens(*self.latent_size)
        chunk = -(-self.parts.settings.chunk * tokens // PAGE_SIZE)
        pages = -(-self._held() * tokens // PAGE_SIZE) + chunk + 2  # the rest is room to undo a chunk
        geometry = Geometry(model.layers, model.heads, model.head_dim, PAGE_SIZE, model.dtype)
        return PagePool(self.parts.arena, geometry, pages, name="video memory")

    def _held(self) -> int:
        """The most latent frames that the cache will hold."""
        bounded = self._rules().held
        if self.request.frames is None:
            assert bounded is not None, "an endless stream without a window was not refused"
            return bounded
        settings = self.parts.settings
        needed = -(-(self.request.frames - 1) // self.parts.vae.time_scale) + 1
        longest = needed + settings.chunk - 1
        return longest if bounded is None else bounded

    def _rules(self) -> StreamRules:
        settings = self.parts.settings
        return StreamRules(self.request.window, self.request.sink, settings.context_noise, settings.positions)

    def _latent_stream(self) -> LatentStream:
        parts, settings, rules = self.parts, self.parts.settings, self._rules()
        tokens = parts.model.frame_tokens(*self.latent_size)
        retention: Retention = KeepAll()
        if rules.window is not None:
            retention = SinkWindow(window=rules.window * tokens, sink=rules.sink * tokens)
        reserve = 0 if rules.held is None else rules.held * tokens
        return LatentStream(
            parts.model,
            FlowSchedule(
                settings.shift, self.request.steps, settings.warp, settings.prediction, settings.sampler
            ),
            self.pool.cache(retention, reserve=reserve, name="stream"),
            parts.attention,
            rules,
            self.latent_size,
            coordinate_planes(settings.planes, self.latent_size, parts.model.device),
        )

    def _now(self) -> float:
        if self.parts.model.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()
