"""A cache in plain Python: lists of token numbers, and the keys and values that belong to each number.

What the paged cache must agree with, written without pages, slots or sharing.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from streamgen.kv import KVCache, PagePool, SinkWindow, Stage

HEADS, DIM = 1, 2


def keys(token: int, layer: int) -> float:
    return token * 8.0 + layer


def values(token: int, layer: int) -> float:
    return -keys(token, layer) - 1


def position(token: int) -> int:
    return 3 * token + 1


def rows(numbers: list[int], layer: int, of: object = keys) -> Tensor:
    """[n, H, D]"""
    flat = torch.tensor([of(token, layer) for token in numbers])
    return flat[:, None, None].expand(-1, HEADS, DIM).clone()


@dataclass
class Model:
    """One stream: `past` as token numbers; `window` and `sink` of its retention, None = everything stays."""

    window: int | None = None
    sink: int = 0
    past: list[int] = field(default_factory=list)

    def visible(self, tokens: int, ordered: bool, replace: int) -> list[int]:
        past = self.past[: len(self.past) - replace]
        return self._inside(past, len(past) + (1 if ordered else tokens))

    def commit(self, visible: list[int], staged: list[int]) -> None:
        total = visible + staged
        self.past = self._inside(total, len(total))

    def _inside(self, tokens: list[int], total: int) -> list[int]:
        if self.window is None:
            return list(tokens)
        return [token for i, token in enumerate(tokens) if i < self.sink or i >= total - self.window]


def model_of(retention: object) -> Model:
    return Model(retention.window, retention.sink) if isinstance(retention, SinkWindow) else Model()


def write(stage: Stage, numbers: list[int]) -> None:
    for layer, part in enumerate(stage.layers()):
        part.write(rows(numbers, layer), rows(numbers, layer, values))


def push(cache: KVCache, numbers: list[int], keep: list[int] | None = None, **options: object) -> Stage:
    """Stage, write and commit these tokens."""
    with cache.stage(len(numbers), **options) as stage:
        write(stage, numbers)
        stage.commit(keep)
    return stage


def stored(cache: KVCache) -> list[list[int]]:
    """The token numbers that each table holds, after checking every layer's keys, values and positions."""
    pool = cache.pool
    found: list[list[int]] = []
    for number, table in enumerate(cache.tables):
        first = number * pool.geometry.layers_per_page
        k, _ = cache.read(first)
        tokens = [round((value - first) / 8) for value in k[:, 0, 0].tolist()]
        for layer in range(first, first + pool.geometry.layers_per_page):
            k, v = cache.read(layer)
            assert torch.equal(k, rows(tokens, layer)), f"layer {layer}: keys of {tokens} are {k[:, 0, 0]}"
            assert torch.equal(v, rows(tokens, layer, values)), f"layer {layer}: values of {tokens}"
        if table.positions is not None:
            assert table.positions.tolist() == [position(token) for token in tokens]
        found.append(tokens)
    return found


def seen(stage: Stage) -> list[list[int]]:
    """The token numbers that a stage's past shows in each table, read through the views."""
    group = stage.cache.pool.geometry.layers_per_page
    shown = []
    for number, view in enumerate(stage.views):
        layer = stage.layers()[number * group]
        flat = layer.k.index_select(0, view.slots[: view.past])[:, 0, 0]
        shown.append([round((value - number * group) / 8) for value in flat.tolist()])
        ends = sorted(slot for run in view.runs for slot in range(*run))
        assert ends == sorted(view.slots.tolist()), "runs and slots differ"
    return shown


def poison(pool: PagePool) -> None:
    """Free pages hold garbage: nobody may be reading them."""
    free = pool.pages.free_pages()
    pool.k[:, free] = float("nan")
    pool.v[:, free] = float("nan")
