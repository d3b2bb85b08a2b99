"""What world sessions share, and what one of them is started from.

Shapes: C latent channels, F latent frames, h and w latent size, A actions, P planes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.geometry import Geometry
from streamgen.kv.retention import SinkWindow
from streamgen.models.actions import ActionEmbedding, action_planes
from streamgen.models.wan import CausalWan
from streamgen.pipelines.denoise import LatentStream, StreamRules, coordinate_planes
from streamgen.pipelines.parts import VideoParts
from streamgen.pipelines.world_keys import Actions
from streamgen.pipelines.world_log import picture_words, read_picture
from streamgen.pipelines.world_memory import Room
from streamgen.pipelines.world_settings import ActionSettings

PAGE_SIZE = 64


@dataclass(frozen=True)
class WorldRequest:
    """A start, settled: the same one with the same events gives the same frames."""

    prompt: str
    seed: int
    size: tuple[int, int]  # width, height in pixels
    steps: tuple[float, ...]
    window: int
    sink: int
    undo: int  # chunks that can be undone
    image: Image.Image | None  # of the size above

    def words(self) -> dict[str, Any]:
        """As a control log keeps it."""
        return {
            "prompt": self.prompt,
            "seed": self.seed,
            "size": list(self.size),
            "steps": list(self.steps),
            "window": self.window,
            "sink": self.sink,
            "undo": self.undo,
            "image": picture_words(self.image),
        }

    @classmethod
    def read(cls, words: dict[str, Any]) -> "WorldRequest":
        """From what `words` gives."""
        names = ("prompt", "seed", "size", "steps", "window", "sink", "undo", "image")
        lacking = [name for name in names if name not in words]
        if lacking:
            raise UsageError(f"The log lacks {', '.join(lacking)}, so its world cannot be started again.")
        facts = {name: words[name] for name in names}
        facts["size"], facts["steps"] = tuple(facts["size"]), tuple(facts["steps"])
        return cls(**facts | {"image": read_picture(facts["image"])})


@dataclass(frozen=True)
class WorldParts:
    """The models, which keep nothing of a world, and how they hear of actions."""

    name: str
    video: VideoParts
    actions: ActionSettings
    embedding: ActionEmbedding | None = None
    openings: Mapping[str, Path] = field(default_factory=dict)  # pictures to begin from, by name

    def words(self) -> dict[str, str]:
        """As a control log keeps them: the same bits come only from the same of these."""
        model = self.video.model
        dtype = str(model.dtype).removeprefix("torch.")
        return {
            "model": self.name,
            "attention": self.video.attention,
            "dtype": dtype,
            "device": str(model.device),
        }

    def latent_size(self, request: WorldRequest) -> tuple[int, int]:
        width, height = request.size
        return height // self.video.vae.scale, width // self.video.vae.scale

    def rules(self, request: WorldRequest) -> StreamRules:
        settings = self.video.settings
        return StreamRules(request.window, request.sink, settings.context_noise, settings.positions)

    def room(self, request: WorldRequest) -> Room:
        """The pages of one session."""
        model, rules = self.video.model, self.rules(request)
        tokens = model.frame_tokens(*self.latent_size(request))
        assert rules.window is not None, "a world has a window"
        return Room(
            self.video.arena,
            Geometry(model.layers, model.heads, model.head_dim, PAGE_SIZE, model.dtype),
            SinkWindow(window=rules.window * tokens, sink=rules.sink * tokens),
            self.video.settings.chunk * tokens,
            request.undo,
        )

    def row(self, actions: Actions, frames: int) -> Tensor:
        """What the player does in each of these latent frames, [F, A]."""
        row = torch.tensor(self.actions.row(actions))
        return row.expand(frames, -1).to(self.video.model.device)

    def hear(self, stream: LatentStream, acts: Tensor) -> None:
        """Let the next pass of the stream go under these actions [F, A]."""
        settings = self.video.settings
        still = coordinate_planes(settings.planes, stream.size, self.video.model.device)
        stream.model = self.model(acts)
        planes = self.actions.input == "planes"
        stream.planes = action_planes(still, acts, stream.size) if planes else still

    def model(self, acts: Tensor) -> CausalWan:
        """The model under these actions."""
        return self.video.model if self.embedding is None else self.embedding.bind(self.video.model, acts)
