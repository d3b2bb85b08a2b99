"""The ring, and the caches it replaces as other projects write them, behind one small protocol.

Shapes: L layers, T tokens of a frame, N tokens of sink and window, n remembered so far, H heads, D head dim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from streamgen.attention import kernels
from streamgen.kv import Arena, Geometry, PagePool, SinkWindow


@dataclass(frozen=True)
class Scale:
    """The made-up model: a frame of Wan 1.3B has 1,560 tokens; an eighth of that suits one core."""

    layers: int = 12
    heads: int = 12
    head_dim: int = 64
    frame: int = 195  # tokens
    window: int = 6  # frames
    sink: int = 1  # frames
    passes: int = 5  # four denoising steps and the clean one

    @property
    def kept(self) -> int:
        return (self.window + self.sink) * self.frame


class Cache(Protocol):
    """A cache under test: open a chunk, answer any number of passes, close it."""

    def open(self) -> None: ...

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...

    def close(self) -> None: ...

    def held(self) -> int: ...

    def spare(self) -> int: ...


Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q [1, T, H, D], k, v [1, n, H, D] -> [1, T, H, D]."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def skipped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """No attention, to see what the cache costs alone."""
    return q


class Ring:
    """Ours: staged in the dead slots of one stretch, read where it lies."""

    def __init__(self, scale: Scale, dtype: torch.dtype, attention: Attention) -> None:
        geometry = Geometry(scale.layers, scale.heads, scale.head_dim, scale.frame, dtype)
        undo = 1  # a frame that a discarded stage would put back
        self.pool = PagePool(Arena(), geometry, scale.window + scale.sink + undo)
        self.cache = self.pool.cache(
            SinkWindow(scale.window * scale.frame, scale.sink * scale.frame), reserve=scale.kept
        )
        self.scale, self.attention = scale, attention

    def open(self) -> None:
        self.stage = self.cache.stage(self.scale.frame)
        self.attends = kernels()["sdpa"].plan([self.stage], self.scale.heads)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.attention is skipped:
            self.attends[layer].store(k, v)
            return q
        return self.attends[layer](q, k, v)

    def close(self) -> None:
        self.stage.commit()

    def held(self) -> int:
        return size([self.pool.k, self.pool.v])

    def spare(self) -> int:
        return 0


class Dense:
    """What the three others share: keys and values [2, 1, N, H, D] of each layer, allocated once."""

    def __init__(self, scale: Scale, dtype: torch.dtype, attention: Attention) -> None:
        shape = (2, 1, scale.kept, scale.heads, scale.head_dim)
        self.layers = [torch.zeros(shape, dtype=dtype) for _ in range(scale.layers)]
        self.scale, self.attention = scale, attention
        self.end = 0  # tokens that are kept

    def open(self) -> None:
        self.full = self.end == self.scale.kept

    def close(self) -> None:
        self.end = min(self.end + self.scale.frame, self.scale.kept)

    def held(self) -> int:
        return size(self.layers)

    def spare(self) -> int:
        return size(self.layers[:1])

    def look(self, q: Tensor, memory: Tensor) -> Tensor:
        return self.attention(q, memory[0], memory[1])

    def roll(self, memory: Tensor) -> None:
        """Shift the window left by a frame; the overlap forces a copy."""
        sink, frame = self.scale.sink * self.scale.frame, self.scale.frame
        memory[:, :, sink:-frame] = memory[:, :, sink + frame :].clone()


class RollByCopy(Dense):
    """As in Self-Forcing: the first pass of a chunk shifts the window, every pass writes the tail."""

    def open(self) -> None:
        super().open()
        self.rolled: set[int] = set()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory, frame = self.layers[layer], self.scale.frame
        if self.full and layer not in self.rolled:
            self.roll(memory)
            self.rolled.add(layer)
        start = self.end - frame if self.full else self.end
        memory[0, :, start : start + frame], memory[1, :, start : start + frame] = k, v
        return self.look(q, memory[:, :, : start + frame])


class CloneAndEdit(Dense):
    """As in LongLive: every pass edits a clone; the layer's own memory changes when the chunk is done."""

    def open(self) -> None:
        super().open()
        self.last: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory = self.layers[layer].clone()
        stop = self.edit(memory, k, v)
        self.last[layer] = k, v
        return self.look(q, memory[:, :, :stop])

    def edit(self, memory: Tensor, k: Tensor, v: Tensor) -> int:
        frame = self.scale.frame
        if self.full:
            self.roll(memory)
        start = self.end - frame if self.full else self.end
        memory[0, :, start : start + frame], memory[1, :, start : start + frame] = k, v
        return start + frame

    def close(self) -> None:
        for layer, (k, v) in self.last.items():
            self.edit(self.layers[layer], k, v)
        super().close()

    def spare(self) -> int:
        return 2 * super().spare()  # the clone, and the copy that shifts it


class Concatenate(Dense):
    """As in most text stacks: past and fresh keys are joined in every pass, then cut to the window."""

    def __init__(self, scale: Scale, dtype: torch.dtype, attention: Attention) -> None:
        super().__init__(scale, dtype, attention)
        self.layers = [memory[:, :, :0] for memory in self.layers]

    def open(self) -> None:
        super().open()
        self.joined = list(self.layers)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        memory, sink, frame = self.layers[layer], self.scale.sink * self.scale.frame, self.scale.frame
        past = [memory[:, :, :sink], memory[:, :, sink + frame :]] if self.full else [memory]
        joined = torch.cat([*past, torch.stack([k, v])], dim=2)
        self.joined[layer] = joined
        return self.look(q, joined)

    def close(self) -> None:
        self.layers = self.joined
        super().close()

    def spare(self) -> int:
        return size(self.layers)  # the joined memories of all layers live until the chunk is done


CACHES: dict[str, Callable[[Scale, torch.dtype, Attention], Cache]] = {
    "ring": Ring,
    "roll by copy": RollByCopy,
    "concatenate": Concatenate,
    "clone and edit": CloneAndEdit,
}


def size(tensors: Sequence[Tensor]) -> int:
    """Bytes of these tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
