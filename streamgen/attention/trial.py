"""Made-up staged caches of a needed shape, for self-tests: as much of the kv interface as a kernel reads.

Shapes: P pages, S page size, H kv heads, D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from streamgen.attention.contract import Need
from streamgen.kv.geometry import Geometry
from streamgen.kv.masks import Causal, Full, Mask, Tree
from streamgen.kv.pool import empty_pages
from streamgen.kv.table import IntArray, Tokens
from streamgen.kv.view import TableKV, View


@dataclass(frozen=True)
class Trial:
    """A stage of one layer over made-up keys and values."""

    table: TableKV
    mask: Mask

    @property
    def tokens(self) -> int:
        return self.table.view.tokens

    @property
    def tables(self) -> Sequence[TableKV]:
        return (self.table,)


def trial_batch(need: Need) -> list[Trial]:
    """Caches of different lengths in one pool, each laid out and masked as the need says."""
    lengths = [max(need.visible - 3 * index, need.tokens + 2) for index in range(need.batch)]
    # Half of the room holds something else.
    room = 2 * -(-max(max(lengths), need.runs) // need.page_size) * need.page_size
    flat = [(_flat(need, 4, need.batch * room), _flat(need, 5, need.batch * room))]
    shared = min(need.shared, min(lengths) - need.tokens)
    trials: list[Trial] = []
    for index, length in enumerate(lengths):
        slots = index * room + _layout(need, length)
        if index:
            slots[:shared] = trials[0].table.view.visible.slots[:shared]
        view = View(Tokens(slots, None), length - need.tokens, need.tokens, need.page_size, need.device)
        trials.append(Trial(TableKV(flat, view), trial_mask(need, length)))
    return trials


def _flat(need: Need, seed: int, slots: int) -> Tensor:
    """Noise [slots, H, D] that lies in memory as a layer of a pool does."""
    geometry = Geometry(1, need.kv_heads, need.head_dim, need.page_size, need.dtype)
    flat = empty_pages(geometry, slots // need.page_size, need.device)[0].flatten(0, 1)
    return flat.copy_(noise(need, seed, slots, need.kv_heads))


def noise(need: Need, seed: int, *shape: int) -> Tensor:
    """Normal numbers [*shape, D], drawn on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, need.head_dim, generator=generator).to(need.device, need.dtype)


def trial_mask(need: Need, length: int) -> Mask:
    """A mask of the needed kind that really hides something."""
    match need.mask:
        case "full":
            return Full()
        case "causal":
            return Causal()
        case "window":
            return Causal(window=max(1, length // 2))
        case "sink":
            return Causal(window=max(1, length // 3), sink=max(1, length // 6))
        case "tree":
            return Tree(tuple((node - 1) // 2 for node in range(need.tokens)))


def _layout(need: Need, length: int) -> IntArray:
    """Slots in logical order: shuffled whole pages, a ring that has wrapped, or stretches with gaps."""
    rng = np.random.default_rng(0)
    index = np.arange(length, dtype=np.int64)
    if need.one_run and not need.paged:
        return np.roll(index, length // 3)
    if need.one_run:
        return index
    if need.paged:
        pages = 2 * rng.permutation(-(-length // need.page_size))
        return pages[index // need.page_size] * need.page_size + index % need.page_size
    stretches = np.array_split(index, min(need.runs, length))
    return np.concatenate([stretches[number] + number for number in rng.permutation(len(stretches))])
