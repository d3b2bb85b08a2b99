"""WorldPipeline: a world that obeys keys and prompts while it runs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image

from streamgen.attention.registry import AUTO
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.kv.snapshot import load as load_cache
from streamgen.models.actions import load_action_embedding
from streamgen.models.registry import resolve
from streamgen.pipelines.chunk import Chunk as Chunk
from streamgen.pipelines.parts import load_parts, refuse_parts
from streamgen.pipelines.request import settle_image, settle_memory, settle_size
from streamgen.pipelines.world_files import read_log, read_moment
from streamgen.pipelines.world_keys import Actions as Actions
from streamgen.pipelines.world_log import ControlLog
from streamgen.pipelines.world_memory import WorldMemory
from streamgen.pipelines.world_parts import WorldParts, WorldRequest
from streamgen.pipelines.world_session import WorldSession as WorldSession
from streamgen.pipelines.world_settings import WorldSettings, openings


class WorldPipeline:
    """A causal video model that is played; sessions own all state and share the model and the arena."""

    def __init__(self, parts: WorldParts) -> None:
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

        A video checkpoint is a world without actions. dtype None is float32 on a CPU and bfloat16 elsewhere.
        """
        dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
        memory = memory or Arena(device=device)
        refuse_parts(device, dtype, attention, memory)
        folder = resolve(name_or_folder_or_hub_id, download)
        settings = WorldSettings.load(folder)
        video = load_parts(folder, settings.video, device, dtype, attention, memory)
        embedding = None
        if settings.actions.input == "embedding":
            dim = video.model.heads * video.model.head_dim
            embedding = load_action_embedding(folder / "actions", settings.actions.numbers, dim, dtype)
            embedding = embedding.to(device)
        name = str(name_or_folder_or_hub_id)
        return cls(WorldParts(name, video, settings.actions, embedding, openings(folder)))

    @property
    def openings(self) -> dict[str, Image.Image]:
        """Pictures to begin from that came with the checkpoint, by name: `start(prompt, image=...)`."""
        return {name: Image.open(path).convert("RGB") for name, path in self.parts.openings.items()}

    def start(
        self,
        prompt: str,
        image: Any = None,
        seed: int = 0,
        *,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        window: int | None = None,
        sink: int | None = None,
        undo: int = 4,
    ) -> WorldSession:
        """Open a world from words, or from words and an image (PIL or uint8 [H, W, 3]), which is the sink.

        With an image, `session.opening` holds its frame; the first step gives the chunk after it. `undo` is
        how many chunks can be taken back.
        """
        return WorldSession.start(
            self.parts, self.request(prompt, image, seed, size, steps, window, sink, undo)
        )

    def request(
        self,
        prompt: str,
        image: Any = None,
        seed: int = 0,
        size: tuple[int, int] | None = None,
        steps: int | None = None,
        window: int | None = None,
        sink: int | None = None,
        undo: int = 4,
    ) -> WorldRequest:
        """Check a start and fill in what the checkpoint says; nothing is computed."""
        settings, vae = self.parts.video.settings, self.parts.video.vae
        if undo < 1:
            raise UsageError(
                f"undo={undo} chunks cannot be; give at least 1: a step that fails needs it too."
            )
        rows, columns = self.parts.video.model.patch
        pixels = settle_size(size or settings.size, (vae.scale * columns, vae.scale * rows))
        kept, pinned = settle_memory(settings, window, sink, endless=True)
        assert kept is not None, "an endless stream without a window was not refused"
        self.parts.video.text.tokens(prompt)
        return WorldRequest(
            prompt=prompt,
            seed=seed,
            size=pixels,
            steps=settings.steps if steps is None else settings.few_steps(steps),
            window=kept,
            sink=pinned,
            undo=undo,
            image=settle_image(image, pixels),
        )

    def load(self, path: str | Path) -> WorldSession:
        """Go on with a world that was saved, in this process or another."""
        folder = Path(path)
        log = read_log(folder)
        request = WorldRequest.read(log.start)
        moment = read_moment(folder, self.parts.video.model)
        memory = WorldMemory(self.parts.room(request))
        session = WorldSession(self.parts, request, memory, log)
        try:
            memory.adopt(lambda pool: load_cache(pool, folder / "cache.safetensors"))
            session.moment = moment
        except BaseException:
            session.close()
            raise
        return session

    def again(self, log: ControlLog) -> WorldSession:
        """The world of a log as it was when it began; its events give the same frames again."""
        return WorldSession.start(self.parts, replace(WorldRequest.read(log.start), undo=1))

    def replay(self, log: ControlLog) -> Iterator[Chunk]:
        """The chunks of a recorded world again, bit for bit on the same device."""
        with self.again(log) as session:
            if session.opening is not None:
                yield session.opening
            for event in log.events:
                if isinstance(event, Actions):
                    yield session.step(event)
                else:
                    session.set_prompt(event.prompt, event.mode, event.over, event.pin_sink)
