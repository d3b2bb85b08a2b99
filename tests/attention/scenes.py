"""Streams whose past is remembered twice: in a cache, and in plain float64 tensors that know no pages.

Shapes: B caches, L layers, T staged tokens, N visible tokens, Q queries, Hq, H heads, D head dim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from streamgen.attention import Kernel
from streamgen.kv import (
    Arena,
    Causal,
    Full,
    Geometry,
    KeepAll,
    KVCache,
    Mask,
    PagePool,
    SinkWindow,
    Stage,
    Tree,
)

LAYERS, KV_HEADS, Q_HEADS, HEAD_DIM = 2, 2, 4, 16


@dataclass
class World:
    """A pool, and the random numbers everything in it is made of."""

    dtype: torch.dtype = torch.float32
    page_size: int = 4
    pages: int = 48
    device: str = "cpu"
    layers_per_page: int = 0
    head_dim: int = HEAD_DIM
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(7))

    def __post_init__(self) -> None:
        geometry = Geometry(LAYERS, KV_HEADS, self.head_dim, self.page_size, self.dtype, self.layers_per_page)
        self.pool = PagePool(Arena(device=self.device), geometry, self.pages)

    def noise(self, *shape: int) -> Tensor:
        drawn = torch.randn(*shape, self.head_dim, generator=self.generator)
        return drawn.to(self.device, self.dtype)

    def stream(self, window: int = 0, sink: int = 0, reserve: bool = False) -> "Stream":
        retention = SinkWindow(window, sink) if window else KeepAll()
        cache = self.pool.cache(retention, reserve=window + sink if reserve else 0)
        return Stream(self, cache, window, sink)


@dataclass
class Stream:
    """A cache, and what it must remember: k and v, float64 [n, L, H, D]."""

    world: World
    cache: KVCache
    window: int = 0
    sink: int = 0
    k: Tensor = field(default=None)  # type: ignore[assignment]
    v: Tensor = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.k is None:
            self.k = self.v = torch.zeros(0, LAYERS, KV_HEADS, self.world.head_dim, dtype=torch.float64)

    def push(self, *sizes: int) -> "Stream":
        """Append chunks under full attention."""
        for size in sizes:
            k, v = self.world.noise(2, size, LAYERS, KV_HEADS)
            with self.cache.stage(size) as stage:
                for number, layer in enumerate(stage.layers()):
                    layer.write(k[:, number], v[:, number])
                stage.commit()
            self.remember(k, v)
        return self

    def remember(self, k: Tensor, v: Tensor, dropped: int = 0) -> None:
        kept = len(self.k) - dropped
        self.k = torch.cat([self.k[:kept], k.double().cpu()])
        self.v = torch.cat([self.v[:kept], v.double().cpu()])
        alive = self.alive(0)
        self.k, self.v = self.k[alive], self.v[alive]

    def alive(self, incoming: int, dropped: int = 0) -> list[int]:
        """Which remembered tokens a sink and a window leave visible."""
        count = len(self.k) - dropped
        if not self.window or count + incoming <= self.window + self.sink:
            return list(range(count))
        return [i for i in range(count) if i < self.sink or i >= count + incoming - self.window]

    def evict(self, *lost: int) -> "Stream":
        keep = [index for index in range(len(self.k)) if index not in lost]
        self.cache.evict(keep)
        self.k, self.v = self.k[keep], self.v[keep]
        return self

    def fork(self) -> "Stream":
        return Stream(self.world, self.cache.fork(), self.window, self.sink, self.k, self.v)


def expected(
    stream: Stream, layer: int, past: Sequence[int], q: Tensor, k: Tensor, v: Tensor, mask: Mask
) -> Tensor:
    """Textbook attention in float64 over what the stream remembers: q [Q, Hq, D], k, v [T, H, D]."""
    keys = torch.cat([stream.k[list(past), layer], k.double().cpu()])
    values = torch.cat([stream.v[list(past), layer], v.double().cpu()])
    queries = q.double().cpu()
    out = torch.empty_like(queries)
    for row in range(len(queries)):
        seen = [j for j in range(len(keys)) if sees(mask, row, j, len(past))]
        for head in range(queries.shape[1]):
            shared = head // (queries.shape[1] // keys.shape[1])
            scores = keys[seen, shared] @ queries[row, head] / queries.shape[2] ** 0.5
            out[row, head] = scores.softmax(0) @ values[seen, shared]
    return out


def sees(mask: Mask, row: int, key: int, past: int) -> bool:
    """Whether staged token `row` sees key number `key`, told without tensors."""
    if isinstance(mask, Full):
        return True
    if isinstance(mask, Causal):
        ordered, distance, place = key <= past + row, past + row - key, key
    else:
        path = ancestors(mask, row)
        depth = len(path) - 1
        place = key if key < past else past + len(ancestors(mask, key - past)) - 1
        ordered, distance = key < past or key - past in path, past + depth - place
    return ordered and (mask.window is None or distance < mask.window or place < mask.sink)


def ancestors(tree: Tree, node: int) -> list[int]:
    path = [node]
    while tree.parents[path[-1]] >= 0:
        path.append(tree.parents[path[-1]])
    return path


def fresh(world: World) -> Stream:
    return world.stream()


def ragged_tail(world: World) -> Stream:
    return world.stream().push(3, 4, 2)


def whole_pages(world: World) -> Stream:
    return world.stream().push(4, 8)


def ring_filling(world: World) -> Stream:
    return world.stream(window=15, reserve=True).push(5)


def ring_wrapped(world: World) -> Stream:
    return world.stream(window=15, reserve=True).push(5, 5, 5, 5)


def ring_with_sink(world: World) -> Stream:
    return world.stream(window=10, sink=5, reserve=True).push(5, 5, 5, 5, 5)


def rolling_pages(world: World) -> Stream:
    return world.stream(window=9).push(5, 3, 4, 2)


def forked(world: World) -> Stream:
    parent = world.stream().push(3, 4)
    child = parent.fork().push(2)
    parent.push(3)
    return child


def forked_ring(world: World) -> Stream:
    parent = world.stream(window=15, reserve=True).push(5, 5, 5, 5)
    child = parent.fork()
    parent.push(5)
    return child


def ring_of_a_fork(world: World) -> Stream:
    parent = world.stream(window=15, reserve=True).push(5, 5, 5, 5)
    parent.fork().push(5)
    return parent


def scattered(world: World) -> Stream:
    first, second = world.stream(), world.stream()
    for size in (4, 3, 6):
        first.push(size)
        second.push(size)
    return second.fork().push(1)


def evicted(world: World) -> Stream:
    return world.stream().push(5, 6).evict(1, 2, 7)


SCENES: tuple[Callable[[World], Stream], ...] = (
    fresh,
    ragged_tail,
    whole_pages,
    ring_filling,
    ring_wrapped,
    ring_with_sink,
    rolling_pages,
    forked,
    forked_ring,
    ring_of_a_fork,
    scattered,
    evicted,
)


def error_of(
    kernel: Kernel,
    streams: Sequence[Stream],
    stages: Sequence[Stage],
    masks: Sequence[Mask],
    queries: int | None = None,
    passes: int = 2,
    dropped: int = 0,
) -> float:
    """Run every layer several times over the same stages; the worst relative error of a query's answer."""
    world, tokens = streams[0].world, stages[0].tokens
    attends = kernel.plan(stages, Q_HEADS)
    assert len(attends) == LAYERS
    worst = 0.0
    for _ in range(passes):
        for layer, attend in enumerate(attends):
            q = 2 * world.noise(len(streams), queries or tokens, Q_HEADS)
            k, v = world.noise(2, len(streams), tokens, KV_HEADS)
            out = attend(q, k, v)
            assert out.shape == q.shape and out.dtype == q.dtype
            for index, (stream, mask) in enumerate(zip(streams, masks, strict=True)):
                incoming = tokens if isinstance(mask, Full) else 1
                past = stream.alive(incoming - dropped, dropped)
                truth = expected(stream, layer, past, q[index], k[index], v[index], looked(stream, mask))
                lost = (out[index].double().cpu() - truth).flatten(1).norm(dim=1)
                worst = max(worst, float((lost / truth.flatten(1).norm(dim=1)).max()))
    return worst


def looked(stream: Stream, mask: Mask) -> Mask:
    """A bounded stream looks through its window even when each query looks back on its own."""
    if not stream.window or isinstance(mask, Full) or (mask.window or stream.window + 1) <= stream.window:
        return mask
    if isinstance(mask, Causal):
        return Causal(stream.window, stream.sink)
    return Tree(mask.parents, stream.window, stream.sink)
