"""What each memory does after a chunk. A keeper belongs to one session; `state` is all it knows of it.

Shapes: L layers, n video tokens of a layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from streamgen.kv.forget import Kept
from streamgen.kv.hierarchical import Depth, Hierarchical, depth
from streamgen.kv.table import IntArray
from streamgen.models.vlm import Piece
from streamgen.pipelines.videoqa_memory import Full, Memory, Uniform, Window
from streamgen.pipelines.videoqa_stream import LayeredStream

HEADROOM = 1024  # positions that are left when an eviction renumbers them, as in the released HERMES code


@dataclass(frozen=True)
class Gone:
    """What a keeper did, and why."""

    kept: Kept
    why: str


class Guide(Protocol):
    """What layers are guided by now: word embeddings [1, Q, dim] for each depth."""

    def __call__(self) -> dict[Depth, Tensor]: ...


class Keeper(Protocol):
    """How one memory treats one stream."""

    @property
    def state(self) -> dict[str, list[int]]:
        """What has to be saved with the stream."""
        ...

    def wants(self, frame: int) -> bool:
        """Whether this frame is to be looked at at all."""
        ...

    def settle(self, stream: LayeredStream, piece: Piece, frames: Sequence[int], guide: Guide) -> Gone | None:
        """Let go after a piece that shows these frames was remembered."""
        ...


def keeper_of(memory: Memory, state: dict[str, list[int]] | None = None) -> Keeper:
    """A keeper for a new stream, or for one that goes on."""
    if isinstance(memory, Hierarchical):
        return HermesKeeper(memory)
    if isinstance(memory, Window):
        return WindowKeeper(memory)
    if isinstance(memory, Uniform):
        return UniformKeeper(memory, state)
    return FullKeeper(memory)


def crowded(stream: LayeredStream, positions: str) -> bool:
    """Whether an eviction should renumber: always, or because positions run out."""
    return positions == "eager" or max(stream.starts) - 1 > stream.vlm.limit - HEADROOM


class _Stateless:
    @property
    def state(self) -> dict[str, list[int]]:
        return {}

    def wants(self, frame: int) -> bool:
        return True


class FullKeeper(_Stateless):
    def __init__(self, memory: Full) -> None:
        self.memory = memory

    def settle(self, stream: LayeredStream, piece: Piece, frames: Sequence[int], guide: Guide) -> Gone | None:
        return None


class WindowKeeper(_Stateless):
    def __init__(self, memory: Window) -> None:
        self.memory = memory

    def settle(self, stream: LayeredStream, piece: Piece, frames: Sequence[int], guide: Guide) -> Gone | None:
        video, budget = stream.video, self.memory.budget
        if video <= budget:
            return None
        last = np.arange(video - budget, video)
        kept = stream.let_go([last] * stream.vlm.layers, crowded(stream, self.memory.positions))
        return Gone(kept, f"{video} video tokens exceed the window of {budget}")


class UniformKeeper:
    """Every `stride`-th frame; the stride doubles when those that were kept no longer fit."""

    def __init__(self, memory: Uniform, state: dict[str, list[int]] | None) -> None:
        self.memory = memory
        self.stride = state["stride"][0] if state else 1
        self.shown = np.array(
            state["shown"] if state else [], dtype=np.int64
        )  # the frame of each video token

    @property
    def state(self) -> dict[str, list[int]]:
        return {"stride": [self.stride], "shown": self.shown.tolist()}

    def wants(self, frame: int) -> bool:
        return frame % self.stride == 0

    def settle(self, stream: LayeredStream, piece: Piece, frames: Sequence[int], guide: Guide) -> Gone | None:
        each = max(1, -(-len(frames) // (int(piece.owners.max()) + 1)))  # frames of a picture
        self.shown = np.concatenate([self.shown, np.asarray(frames, dtype=np.int64)[piece.owners * each]])
        video, budget, stride = stream.video, self.memory.budget, self.stride
        index: IntArray = np.arange(video)
        while len(index) > budget:
            stride *= 2
            index = np.flatnonzero(self.shown % stride == 0)
            if len(index) and (self.shown[index] == self.shown[index[0]]).all():
                break
        if stride == self.stride:
            return None
        index = index[:budget]
        kept = stream.let_go([index] * stream.vlm.layers, crowded(stream, self.memory.positions))
        self.stride, self.shown = stride, self.shown[index]
        return Gone(kept, f"{video} video tokens exceed {budget}: from now on one frame in {stride}")


class HermesKeeper(_Stateless):
    def __init__(self, memory: Hierarchical) -> None:
        self.memory = memory

    def settle(self, stream: LayeredStream, piece: Piece, frames: Sequence[int], guide: Guide) -> Gone | None:
        memory, layers, video = self.memory, stream.vlm.layers, stream.lengths[0] - stream.prompt
        if not memory.due(stream.prompt, video):
            return None
        texts, depths = guide(), [depth(layer, layers) for layer in range(layers)]
        attention = stream.guided([texts[kind] if kind != "shallow" else None for kind in depths])
        slots = memory.chosen(memory.scores(attention))
        deep = [layer for layer, kind in enumerate(depths) if kind == "deep"]
        kept = stream.let_go(slots, crowded(stream, memory.positions), summarize=deep)
        return Gone(kept, f"{video} video tokens and {stream.prompt} of the prompt, budget {memory.budget}")
