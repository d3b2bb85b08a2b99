"""WorldSession: one running world, and all that is its own, from its pages to its place in the noise.

Shapes: C latent channels, F latent frames of a chunk, n remembered ones, A actions, N text rows, D text dim.
"""

import time
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.cache import KVCache
from streamgen.pipelines.chunk import Chunk, to_pixels
from streamgen.pipelines.denoise import LatentStream
from streamgen.pipelines.recache import recache
from streamgen.pipelines.world_files import save_world
from streamgen.pipelines.world_keys import IDLE, Actions
from streamgen.pipelines.world_log import ControlLog
from streamgen.pipelines.world_memory import WorldMemory
from streamgen.pipelines.world_moment import Moment
from streamgen.pipelines.world_parts import WorldParts, WorldRequest
from streamgen.pipelines.world_prompt import Mode, Receipt, Switch, Transition
from streamgen.sampling.flow import FlowSchedule, noise

STREAM = 0  # its number in the key of the noise


class WorldSession:
    """Use it as a context manager: leaving it, closing it or dropping it gives every page back."""

    def __init__(
        self, parts: WorldParts, request: WorldRequest, memory: WorldMemory, log: ControlLog
    ) -> None:
        self.parts = parts
        self.request = request
        self.memory = memory
        self.log = log
        self.receipts = 0
        self.kernel = parts.video.attention  # the name; of the one that was chosen, once there was a chunk
        self.opening: Chunk | None = None  # the start image as the model sees it, where there is one
        self.moment: Moment
        self._past: deque[Moment] = deque(maxlen=request.undo)
        weakref.finalize(self, memory.close)

    @classmethod
    def start(cls, parts: WorldParts, request: WorldRequest) -> Self:
        """A new world; with an image, its first frame is already remembered."""
        log = ControlLog({**parts.words(), **request.words()})
        session = cls(parts, request, WorldMemory(parts.room(request)), log)
        try:
            session.begin()
        except BaseException:
            session.close()
            raise
        return session

    def begin(self) -> None:
        """Stand at the very start, with nothing remembered but a start image."""
        video = self.parts.video
        embeds = video.text([self.request.prompt])
        empty = torch.zeros(1, video.vae.channels, 0, *self._size(), device=video.model.device)
        acts = torch.zeros(0, self.parts.actions.numbers, device=video.model.device)
        text = video.model.text(embeds)
        self.moment = Moment(self.request.prompt, embeds, text, video.vae.decoder_state(), empty, acts)
        if self.request.image is not None:
            self.opening = self._open_with(np.array(self.request.image))

    def step(self, actions: Actions | Iterable[str] = (), at: float | None = None) -> Chunk:
        """The next chunk under these actions; `at` (time.perf_counter) is when the player gave them.

        A step that fails leaves the world as it was.
        """
        given = Actions.of(actions)
        began = time.perf_counter()
        acts = self.parts.row(given, self._chunk_frames())
        self.memory.remember()
        self._past.append(self.moment)
        try:
            chunk = self._make(acts, began, began if at is None else at)
        except BaseException:
            self.moment = self._past.pop()
            self.memory.go_back(1)
            raise
        self.log.events.append(given)
        self.moment = replace(self.moment, events=len(self.log.events))
        return chunk

    def set_prompt(
        self, text: str, mode: Mode | None = None, over: int = 1, pin_sink: bool = True
    ) -> Receipt:
        """Change the prompt from the next chunk on, all or nothing; `world_prompt` tells the modes."""
        switch = Switch.of(text, mode, over, pin_sink)
        began = time.perf_counter()
        video = self.parts.video
        self._require_awake()
        embeds = video.text([text])
        moment = replace(self.moment, prompt=text, transition=None)
        if over > 1:
            moment = replace(moment, transition=Transition(self.moment.embeds, embeds, over))
        else:
            moment = replace(moment, embeds=embeds, text=video.model.text(embeds))
        moment, frames = self._renew(moment, switch)
        self.log.events.append(switch)
        self.moment = replace(moment, events=len(self.log.events))
        self.receipts += 1
        return Receipt(
            number=self.receipts - 1,
            prompt=text,
            mode=switch.mode,
            over=over,
            chunk=moment.index,
            frame=moment.frame,
            forwards=int(frames > 0),
            tokens=frames * video.model.frame_tokens(*self._size()),
            seconds=self._now() - began,
        )

    def fork(self) -> "WorldSession":
        """The same world with a future of its own; it shares every page until one of the two moves on.

        What was undoable before the fork cannot be undone in it.
        """
        self._require_awake()
        log = ControlLog(self.log.start, list(self.log.events))
        other = WorldSession(self.parts, self.request, self.memory.fork(), log)
        other.moment, other.opening = self.moment, self.opening
        return other

    @property
    def undoable(self) -> int:
        """Chunks that can be undone now; fewer than asked for after recaches of the whole window."""
        return len(self.memory.marks)

    def undo(self, chunks: int = 1) -> None:
        """Go back to before the last chunks; the same actions then give the same frames."""
        if not 1 <= chunks <= self.undoable:
            raise UsageError(
                f"{chunks} chunks cannot be undone; {self.undoable} can (undo={self.request.undo})."
            )
        self.memory.go_back(chunks)
        for _ in range(chunks):
            self.moment = self._past.pop()
        del self.log.events[self.moment.events :]

    def reset(self) -> None:
        """Begin again with the same prompt, image and seed."""
        self.memory.change(lambda cache: cache.rewind(cache.tokens))
        self.memory.forget()
        self._past.clear()
        self.log.events.clear()
        self.begin()

    def save(self, path: str | Path) -> None:
        """Write the world to a folder; `WorldPipeline.load` goes on bit for bit, in any process."""
        save_world(self.memory.cache, self.moment, self.log, Path(path))

    def offload(self) -> None:
        """Move everything to host memory and give the device's bytes back, until `resume`."""
        self._require_awake()
        self.memory.offload()
        self._past.clear()
        self.moment = self.moment.to("cpu")

    def resume(self) -> None:
        """Come back after `offload`; harmless when awake."""
        self.memory.resume()
        self.moment = self.moment.to(self.parts.video.model.device)

    def close(self) -> None:
        """Give every page back; closing twice is harmless."""
        self.memory.close()
        self._past.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def noise(self, step: int, frames: int) -> Tensor:
        """What is mixed in before a step of the next chunk, [1, C, F, h, w]."""
        shape = (1, self.parts.video.vae.channels, frames, *self._size())
        drawn = noise(self.request.seed, STREAM, self.moment.index, step, shape)
        return drawn.to(self.parts.video.model.device)

    def stream(self, cache: KVCache, moment: Moment, acts: Tensor) -> LatentStream:
        """The stream of latents at this moment, under the actions [F, A] of the frames to be computed."""
        video, settings = self.parts.video, self.parts.video.settings
        schedule = FlowSchedule(
            settings.shift, self.request.steps, settings.warp, settings.prediction, settings.sampler
        )
        rules = self.parts.rules(self.request)
        stream = LatentStream(video.model, schedule, cache, video.attention, rules, self._size())
        stream.frame, stream.sink_frame = moment.latent, moment.sink
        self.parts.hear(stream, acts)
        return stream

    def _make(self, acts: Tensor, began: float, at: float) -> Chunk:
        clock = [began]
        moment = self._next_text(self.moment)
        clock.append(self._now())

        frames, stream = len(acts), self.stream(self.memory.cache, moment, acts)
        first = self.noise(0, frames)
        latents = self.memory.change(
            lambda cache: stream.generate(first, lambda step: self.noise(step, frames), moment.text), kept=1
        )
        self.kernel = stream.kernel
        clock.append(self._now())
        chunk, self.moment = self._decode(replace(moment, sink=stream.sink_frame), latents, acts)
        clock.append(self._now())
        timing = dict(zip(("text", "dit", "vae"), np.diff(clock).tolist(), strict=True))
        return replace(chunk, timing=timing | {"input_to_frame": clock[-1] - at})

    def _decode(self, moment: Moment, latents: Tensor, acts: Tensor) -> tuple[Chunk, Moment]:
        video = self.parts.video
        frames, state = video.vae.decode(latents, moment.vae)
        pixels = to_pixels(frames, moment.index, video.attention)
        chunk = Chunk(pixels, moment.index, moment.frame, {}, latents)
        held = self.request.window + self.request.sink
        moment = replace(moment.extended(latents, acts, held), vae=state, index=moment.index + 1)
        return chunk, replace(moment, frame=moment.frame + len(pixels))

    def _next_text(self, moment: Moment) -> Moment:
        """A transition moves on by one chunk: new text keys and values, nothing else."""
        if moment.transition is None:
            return moment
        moving = replace(moment.transition, done=moment.transition.done + 1)
        text = self.parts.video.model.text(moving.embeds)
        going = moving if moving.done < moving.over else None
        return replace(moment, embeds=moving.embeds, text=text, transition=going)

    def _renew(self, moment: Moment, switch: Switch) -> tuple[Moment, int]:
        """Do to the memory what the mode says; also how many latent frames were computed for it."""
        if switch.mode == "none" or not moment.latent:
            return moment, 0
        if switch.mode == "cut":
            self.memory.change(lambda cache: cache.rewind(cache.tokens))
            return moment.emptied(self.parts.video.vae.decoder_state()), 0
        frames = moment.block if switch.mode == "last" else moment.recent.shape[2]

        def rewrite(cache: KVCache) -> int:
            stream = self.stream(cache, moment, moment.acts[-frames:])
            if switch.mode == "last":
                stream.rewrite(moment.recent[:, :, -frames:], moment.text, kept=0)
            else:
                recache(stream, moment.recent, moment.text, keep_sink=switch.pin_sink)
            return stream.sink_frame

        return replace(moment, sink=self.memory.change(rewrite)), frames

    def _open_with(self, picture: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Chunk:
        video = self.parts.video
        pixels = torch.from_numpy(picture).permute(2, 0, 1)[None, :, None].float() / 127.5 - 1
        latents = video.vae.encode(pixels, video.vae.encoder_state())[0].to(video.model.device)
        acts, moment = self.parts.row(IDLE, 1), self.moment
        self.memory.change(lambda cache: self.stream(cache, moment, acts).take(latents, moment.text))
        chunk, self.moment = self._decode(moment, latents, acts)
        return chunk

    def _chunk_frames(self) -> int:
        settings = self.parts.video.settings
        return 1 if settings.independent_first_frame and self.moment.latent == 0 else settings.chunk

    def _size(self) -> tuple[int, int]:
        return self.parts.latent_size(self.request)

    def _require_awake(self) -> None:
        if self.memory.closed or self.memory.stored is not None:
            state = "closed; start a new one" if self.memory.closed else "offloaded; resume() it first"
            raise UsageError(f"This session is {state}.")

    def _now(self) -> float:
        if self.parts.video.model.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()
