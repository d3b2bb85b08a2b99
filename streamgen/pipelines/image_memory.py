"""What the scales of an image remember of each other: one cache a sequence, and one layer for the last scale.

A batch of images under guidance is twice as many sequences. Shapes: B sequences, T tokens of a scale,
n tokens of all scales but the last, H heads, D head dim.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from streamgen.attention.contract import Kernel, Need
from streamgen.kv.arena import Arena
from streamgen.kv.cache import KVCache
from streamgen.kv.geometry import Geometry
from streamgen.kv.pool import PagePool
from streamgen.kv.stage import Stage, stage_together
from streamgen.models.attend import Attend
from streamgen.models.var import VarConfig


def stored(config: VarConfig, dtype: torch.dtype) -> Geometry:
    """One page is what one sequence remembers: one stretch of slots, and nothing is rounded up."""
    return Geometry(config.depth, config.heads, config.head_dim, config.stored_tokens, dtype)


def passing(config: VarConfig, dtype: torch.dtype) -> Geometry:
    """One layer of one sequence with the last scale, which no later scale looks back on."""
    return Geometry(1, config.heads, config.head_dim, config.tokens, dtype)


def memory_bytes(config: VarConfig, dtype: torch.dtype, sequences: int) -> dict[str, int]:
    """Bytes that images of so many sequences hold while they are made."""
    return {
        "stored": sequences * stored(config, dtype).page_bytes,
        "last_scale": sequences * passing(config, dtype).page_bytes,
    }


def hardest_need(config: VarConfig, dtype: torch.dtype, device: str, sequences: int) -> Need:
    """What the last scale asks of a kernel; the others ask for less of the same."""
    last = config.patches[-1] ** 2
    return Need(
        device=torch.device(device).type,
        dtype=dtype,
        head_dim=config.head_dim,
        q_heads=config.heads,
        kv_heads=config.heads,
        mask="full",
        page_size=config.tokens,
        paged=True,
        one_run=True,
        runs=1,
        batch=sequences,
        tokens=last,
        visible=config.tokens,
        capability=torch.cuda.get_device_capability(device) if device.startswith("cuda") else None,
    )


@dataclass(frozen=True)
class _Passing:
    """An Attend of the last scale: a layer's past lies beside its fresh keys until the next layer comes."""

    attend: Attend
    past: tuple[Tensor, Tensor]  # keys and values of this layer, [slots, H, D]
    room: tuple[Tensor, Tensor]  # of the only layer beside it; whole, so that compiled code sees no overlap
    places: tuple[tuple[int, int], ...]  # where the past of each sequence begins here and there
    tokens: int  # n

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        for room, past in zip(self.room, self.past, strict=True):
            for here, there in self.places:
                room[there : there + self.tokens].copy_(past[here : here + self.tokens])
        return self.attend(q, k, v)

    def store(self, k: Tensor, v: Tensor) -> None:
        """The last scale is never stored."""


class ScaleMemory:
    """The caches of a batch, staged together scale by scale; leaving the with-block gives every byte back."""

    def __init__(
        self, config: VarConfig, dtype: torch.dtype, arena: Arena, kernel: Kernel, sequences: int
    ) -> None:
        self.config = config
        self.kernel = kernel
        with ExitStack() as undo:
            self.pool = undo.enter_context(
                PagePool(arena, stored(config, dtype), sequences, "scales of an image")
            )
            self.layer = undo.enter_context(
                PagePool(arena, passing(config, dtype), sequences, "last scale of an image")
            )
            self.caches = [
                self.pool.cache(name=f"scales of sequence {number}") for number in range(sequences)
            ]
            self.beside = [
                self.layer.cache(name=f"last scale of sequence {number}") for number in range(sequences)
            ]
            self._held = undo.pop_all()

    def close(self) -> None:
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def scale(self, scale: int) -> Iterator[Sequence[Attend]]:
        """One Attend a layer. The scale is remembered when the block ends well; the last one never is."""
        tokens = self.config.patches[scale] ** 2
        if scale == self.config.scales - 1:
            with staged(self.beside, self.config.stored_tokens) as room:
                commit(room)
            with staged(self.beside, tokens) as stages:
                yield self._beside(stages)
            return
        with staged(self.caches, tokens) as stages:
            yield self.kernel.plan(stages, self.config.heads)
            commit(stages)

    def _beside(self, stages: Sequence[Stage]) -> list[Attend]:
        (attend,) = self.kernel.plan(stages, self.config.heads)
        here, there = (
            [int(cache.tables[0].slots[0]) for cache in side] for side in (self.caches, self.beside)
        )
        places = tuple(zip(here, there, strict=True))
        room, tokens = self.layer.flat[0], self.config.stored_tokens
        return [_Passing(attend, past, room, places, tokens) for past in self.pool.flat]


@contextmanager
def staged(caches: Sequence[KVCache], tokens: int) -> Iterator[list[Stage]]:
    """Stages of all caches or of none; what is not committed in the block is discarded."""
    with ExitStack() as stack:
        yield [stack.enter_context(stage) for stage in stage_together(caches, tokens)]


def commit(stages: Sequence[Stage]) -> None:
    for stage in stages:
        stage.commit()
