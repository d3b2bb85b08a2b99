"""VideoQAPipeline: watch a stream for ever, answer at once, in fixed memory."""

from pathlib import Path
from typing import Self

import torch

from streamgen.attention.contract import KernelError
from streamgen.attention.registry import AUTO, named
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.models.registry import resolve
from streamgen.pipelines import videoqa_memory
from streamgen.pipelines.videoqa_files import read_session
from streamgen.pipelines.videoqa_log import Eviction as Eviction
from streamgen.pipelines.videoqa_log import QAStats as QAStats
from streamgen.pipelines.videoqa_log import Told
from streamgen.pipelines.videoqa_log import Watched as Watched
from streamgen.pipelines.videoqa_memory import PAGE, Memory, Room, geometry
from streamgen.pipelines.videoqa_parts import QAParts, load_parts
from streamgen.pipelines.videoqa_room import StreamRoom
from streamgen.pipelines.videoqa_session import VideoQASession as VideoQASession
from streamgen.pipelines.videoqa_settings import VideoQASettings

QUESTION = 128  # tokens of a question that a session has room for unless told otherwise, its answer besides


class VideoQAPipeline:
    """A vision-language model that watches; sessions own all state and share the model and the arena."""

    def __init__(self, parts: QAParts, memory: Memory) -> None:
        self.parts = parts
        self.memory = memory

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder_or_hub_id: str | Path,
        *,
        memory: Memory | str = "hermes",
        device: str = "cpu",
        dtype: torch.dtype | None = None,
        attention: str = AUTO,
        arena: Arena | None = None,
        download: bool = False,
    ) -> Self:
        """Load a bundled checkpoint, a local folder, or a hub id (from the local cache unless `download`).

        `memory` is what sessions keep of a stream unless `open` is told otherwise; a name ('hermes',
        'window', 'uniform', 'full') takes the budget of the checkpoint. dtype None is float32 on a CPU and
        bfloat16 elsewhere. The bytes of sessions are drawn from `arena`.
        """
        dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
        arena = arena or Arena(device=device)
        _refuse(device, attention, arena)
        folder = resolve(name_or_folder_or_hub_id, download)
        settings = VideoQASettings.load(folder)
        chosen = _memory(memory, settings)
        parts = load_parts(folder, str(name_or_folder_or_hub_id), settings, device, dtype, attention, arena)
        pipeline = cls(parts, chosen)
        pipeline.room()  # a memory that cannot fit is refused here, not at the first session
        return pipeline

    def open(
        self,
        *,
        memory: Memory | str | None = None,
        steer: bool = True,
        room: int | None = None,
        overlap: int = 0,
    ) -> VideoQASession:
        """Begin to watch. `steer`: past questions guide what is kept.

        `room` is how many tokens a question and its answer may take together; `overlap` how many answers may
        be under way while the stream moves on, each of which takes as many bytes as the stream again.
        """
        chosen = self.memory if memory is None else _memory(memory, self.parts.settings)
        prompt = self.parts.encode(self.parts.settings.prompt)
        needed = self.room(chosen, room, overlap)
        return VideoQASession(StreamRoom.begin(self.parts, chosen, needed, prompt), Told(steer=steer))

    def room(self, memory: Memory | None = None, room: int | None = None, overlap: int = 0) -> Room:
        """How many tokens a session would hold, without opening one; UsageError where that cannot be."""
        settings, vlm = self.parts.settings, self.parts.vlm
        question = QUESTION + settings.answer_tokens if room is None else room
        if question < 2 or overlap < 0:
            raise UsageError(f"room={question} and overlap={overlap} cannot be; give at least 2 and 0.")
        return Room.of(
            memory or self.memory,
            len(self.parts.encode(settings.prompt)),
            self.parts.vision.most_tokens(settings.chunk),
            question,
            overlap,
            vlm.limit,
        )

    def bytes(self, memory: Memory | None = None, room: int | None = None, overlap: int = 0) -> int:
        """Bytes of keys and values that a session would reserve."""
        vlm = self.parts.vlm
        return self.room(memory, room, overlap).pages(vlm.layers, PAGE) * geometry(vlm, vlm.dtype).page_bytes

    def load(self, path: str | Path) -> VideoQASession:
        """Go on with a session that was saved, in this process or another."""
        saved = read_session(Path(path))
        room = StreamRoom.load(self.parts, saved.memory, saved.room, saved.cache, saved.keeper)
        return VideoQASession(room, saved.told)


def _memory(memory: Memory | str, settings: VideoQASettings) -> Memory:
    if not isinstance(memory, str):
        return memory
    return videoqa_memory.named(memory, None if memory == "full" else settings.budget)


def _refuse(device: str, attention: str, arena: Arena) -> None:
    """Refuse, before anything is loaded, what could not run."""
    if torch.device(arena.device) != torch.device(device):
        raise UsageError(
            f"The arena lies on {arena.device} and the model is to be on {device}; make both the same."
        )
    absent = None if attention == AUTO else named(attention).absent()
    if absent is not None:
        raise KernelError(f"The kernel {attention!r} was asked for and cannot serve: {absent}")
