"""A pool of pages of one geometry, and the caches that live in it.

In memory a GPU's pages are whole pages, as paged kernels read them; on a CPU all keys of one head lie behind
each other, so that a query that sweeps over a head reads one stretch instead of a row here and there. The
shapes are the same for both, only the strides differ.
Shapes: G layers of a page, P pages, S page size, H kv heads, D head dim.
"""

from collections.abc import Sequence
from types import TracebackType

import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.kv.cache import KVCache
from streamgen.kv.counters import PoolCounters, Tally, count_pool
from streamgen.kv.errors import CacheStateError
from streamgen.kv.geometry import Geometry
from streamgen.kv.invariants import check_pool
from streamgen.kv.pages import Holder, Pages
from streamgen.kv.retention import KeepAll, Retention
from streamgen.kv.table import IntArray


class PagePool:
    """Keys and values [G, P, S, H, D], allocated once; caches share the pages and count references."""

    def __init__(self, arena: Arena, geometry: Geometry, pages: int, name: str = "pool") -> None:
        if pages < 1:
            raise UsageError(f"A pool of {pages} pages holds nothing; give at least 1.")
        self.arena = arena
        self.geometry = geometry
        self.name = name
        self.lease = arena.reserve(pages * geometry.page_bytes, name)
        self.pages = Pages(pages, name)
        self.tally = Tally()
        self.caches: dict[KVCache, None] = {}
        self._allocate(pages)

    @property
    def device(self) -> str:
        return self.arena.device

    def cache(
        self,
        retention: Retention | None = None,
        reserve: int = 0,
        rotated: bool = True,
        name: str = "",
    ) -> KVCache:
        """Open the past of a new stream; `reserve` tokens of it lie in one stretch of pages, and no more."""
        if self.closed:
            raise CacheStateError(f"{self.name} is closed; build a new pool.")
        name = name or f"cache {len(self.caches)} of {self.name}"
        return KVCache(self, retention or KeepAll(), reserve, rotated, name)

    def counters(self) -> PoolCounters:
        """What the pool holds and has done so far."""
        return count_pool(self)

    def check(self) -> None:
        """Assert that reference counts, free list and tables agree."""
        check_pool(self)

    def close(self) -> None:
        """Close every cache and give the bytes back to the arena."""
        for cache in list(self.caches):
            cache.close()
        self.flat.clear()
        self.k = self.v = torch.empty(0)
        self.closed = True
        self.lease.free()

    def __enter__(self) -> "PagePool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def duplicate(self, pages: Sequence[int], holder: Holder) -> list[int]:
        """Copy pages to free ones, which `holder` then holds."""
        copies = self.pages.take(len(pages), holder)
        try:
            self.copy_pages(pages, copies)
        except BaseException:
            self.pages.release(copies, holder)
            raise
        return copies

    def copy_pages(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy whole pages, all of them at once in each layer."""
        if not sources:
            return
        source = torch.tensor(sources, device=self.device)
        target = torch.tensor(targets, device=self.device)
        for plane in (self.k, self.v):
            for layer in _movable(plane):
                layer.index_copy_(0, target, layer.index_select(0, source))
        self.tally.copies += len(sources)

    def move_slots(self, sources: IntArray, targets: IntArray) -> None:
        """Copy single tokens; every source is read before any target is written."""
        source = torch.from_numpy(sources).to(self.device)
        target = torch.from_numpy(targets).to(self.device)
        for pair in self.flat:
            for layer in pair:
                moved = _movable(layer)
                moved.index_copy_(0, target, moved.index_select(0, source))
        self.tally.moves += len(sources)

    def _allocate(self, pages: int) -> None:
        try:
            with torch.inference_mode(False):
                self.k, self.v = (empty_pages(self.geometry, pages, self.device) for _ in "kv")
        except BaseException:
            self.lease.free()
            raise
        self.flat: list[tuple[Tensor, Tensor]] = [
            (k.flatten(0, 1), v.flatten(0, 1)) for k, v in zip(self.k, self.v, strict=True)
        ]
        self.closed = False


def empty_pages(geometry: Geometry, pages: int, device: str) -> Tensor:
    """Zeros [G, P, S, H, D], laid out for the device."""
    layers, size, heads, dim = (
        geometry.layers_per_page,
        geometry.page_size,
        geometry.kv_heads,
        geometry.head_dim,
    )
    if device != "cpu":
        return torch.zeros(layers, pages, size, heads, dim, dtype=geometry.dtype, device=device)
    by_head = torch.zeros(layers, heads, pages, size, dim, dtype=geometry.dtype)
    return by_head.permute(0, 2, 3, 1, 4)


def _movable(tensor: Tensor) -> Tensor:
    """One-byte floats move as bytes: torch has no indexed copy for them on every device."""
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor
