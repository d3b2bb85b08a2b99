"""VideoPipeline: a prompt in, frames out, chunk by chunk, for as long as somebody asks.

Shapes: T frames, H height, W width, C latent channels, F latent frames, h and w latent size.
"""

from collections.abc import Generator
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from streamgen.attention.registry import AUTO
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.models.registry import resolve
from streamgen.pipelines.chunk import Chunk as Chunk
from streamgen.pipelines.chunk import DeadChunkError as DeadChunkError
from streamgen.pipelines.parts import VideoParts, load_parts, refuse_parts
from streamgen.pipelines.request import (
    PromptAt,
    VideoRequest,
    settle_frames,
    settle_image,
    settle_latents,
    settle_memory,
    settle_prompts,
    settle_size,
)
from streamgen.pipelines.session import VideoSession
from streamgen.pipelines.settings import VideoSettings


class VideoPipeline:
    """A causal video model with everything it needs to stream; sessions own all state."""

    def __init__(self, parts: VideoParts) -> None:
        self.parts = parts

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder_or_hub_id: str | Path,
        *,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
        attention: str = AUTO,
        memory: Arena | None = None,
        download: bool = False,
    ) -> Self:
        """Load a bundled checkpoint, a local folder, or a hub id (from the local cache unless `download`).

        dtype None is float32 on a CPU and bfloat16 elsewhere. `memory` is the budget that sessions draw on.
        """
        dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
        memory = memory or Arena(device=device)
        refuse_parts(device, dtype, attention, memory)
        folder = resolve(name_or_folder_or_hub_id, download)
        settings = VideoSettings.load(folder)
        return cls(load_parts(folder, settings, device, dtype, attention, memory))

    @property
    def settings(self) -> VideoSettings:
        """What the checkpoint says of itself."""
        return self.parts.settings

    @property
    def transformer(self) -> Any:
        """The stock transformer, for LoRA, quantisation, compilation and the like."""
        return self.parts.model.transformer

    def stream(
        self,
        prompt: str,
        *,
        frames: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        window: int | None = None,
        sink: int | None = None,
        prompt_at: PromptAt = (),
        image: Any = None,
        latents: Tensor | None = None,
    ) -> Generator[Chunk, None, None]:
        """Yield chunks as they are computed: exactly `frames` of them or `seconds`, or without end.

        `size` is (width, height), taken to the nearest multiple that the model works in. `window` and `sink`
        are latent frames. `prompt_at` holds (seconds, prompt); a prompt counts from the first chunk that
        begins then or later. The video begins with `image` (PIL or uint8 [H, W, 3]; scaled to cover, cut in
        the middle) or with `latents` [1, C, F, h, w] of another stream, and those frames are part of it.
        """
        request = self.request(
            prompt, frames, seconds, seed, size, steps, window, sink, prompt_at, image, latents
        )
        return self._run(request)

    def request(
        self,
        prompt: str,
        frames: int | None = None,
        seconds: float | None = None,
        seed: int = 0,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        window: int | None = None,
        sink: int | None = None,
        prompt_at: PromptAt = (),
        image: Any = None,
        latents: Tensor | None = None,
    ) -> VideoRequest:
        """Check a wish and fill in what the checkpoint says; nothing is computed."""
        settings, vae = self.settings, self.parts.vae
        if image is not None and latents is not None:
            raise UsageError("A video begins with an image or with latents, not with both; leave one out.")
        length = settle_frames(frames, seconds, settings.fps)
        pixels = settle_size(size or settings.size, self.size_multiple)
        kept, pinned = settle_memory(settings, window, sink, endless=length is None)
        request = VideoRequest(
            prompts=settle_prompts(prompt, prompt_at, settings.fps),
            frames=length,
            seed=seed,
            size=pixels,
            steps=settings.steps if steps is None else settings.few_steps(steps),
            window=kept,
            sink=pinned,
            image=settle_image(image, pixels),
            latents=settle_latents(latents, vae.channels, (pixels[0] // vae.scale, pixels[1] // vae.scale)),
        )
        for _, text in request.prompts:
            self.parts.text.tokens(text)
        return request

    def open(self, request: VideoRequest) -> VideoSession:
        """A session to step by hand; `stream` does it for you."""
        return VideoSession(self.parts, request)

    @property
    def size_multiple(self) -> tuple[int, int]:
        """Width and height are multiples of these."""
        rows, columns = self.parts.model.patch
        return self.parts.vae.scale * columns, self.parts.vae.scale * rows

    def _run(self, request: VideoRequest) -> Generator[Chunk, None, None]:
        with self.open(request) as session:
            yield from session
