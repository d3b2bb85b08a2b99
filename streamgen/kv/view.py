"""What the staged queries see, and where a layer writes: host integers and device tensors both.

Shapes: P pages, S page size, H kv heads, D head dim, T staged tokens, n visible tokens (past, then staged).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.table import IntArray, Places, Tokens, settled


@dataclass(frozen=True, eq=False)
class View:
    """The visible tokens of one table during one stage; what a kernel does not ask for is never made."""

    visible: Tokens
    past: int
    tokens: int
    page_size: int
    device: str

    @cached_property
    def slots(self) -> Tensor:
        """[n] int64: visible past, then staged, in logical order."""
        return _on_device(self.visible.places, self.device)

    @cached_property
    def staged(self) -> Tensor:
        """[T] int64: the slots of the staged tokens."""
        return _on_device(self.visible.places[self.past :], self.device)

    @cached_property
    def positions(self) -> Tensor | None:
        """[n] or [n, axes] int64, in logical order; None when the stream has none."""
        if self.visible.positions is None:
            return None
        return torch.from_numpy(self.visible.positions).to(self.device)

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The visible slots as maximal (start, stop) stretches, by rising slot."""
        if isinstance(self.visible.places, range):
            stretch = self.visible.places
            return ((stretch.start, stretch.stop),) if stretch else ()
        slots = self.visible.slots
        if len(slots):  # all different, so that a span as long as they are many is one run
            first, last = int(slots.min()), int(slots.max())
            if last - first + 1 == len(slots):
                return ((first, last + 1),)
        return slot_runs(np.sort(self.visible.slots, kind="stable"))

    @cached_property
    def staged_run(self) -> tuple[int, int] | None:
        """The staged slots as one stretch in order, where they are one."""
        staged = self.visible.places[self.past :]
        if isinstance(staged, range):
            return (staged.start, staged.stop) if staged else None
        runs = slot_runs(staged)
        return runs[0] if len(runs) == 1 else None

    @cached_property
    def pages(self) -> Tensor | None:
        """[m] int32: the block table, when all pages are full but the last and in logical order."""
        slots = self.visible.slots
        if settled(slots, self.page_size) < len(slots):
            return None
        pages = slots[:: self.page_size] // self.page_size
        return torch.from_numpy(pages.astype(np.int32)).to(self.device)


@dataclass(frozen=True, eq=False)
class TableKV:
    """The layers of one table, k and v of each as flat slots [P*S, H, D], and what their queries see."""

    flat: Sequence[tuple[Tensor, Tensor]]
    view: View


@dataclass(frozen=True, eq=False)
class LayerKV:
    """One layer of the pool as flat slots [P*S, H, D], and what its staged queries see there."""

    k: Tensor
    v: Tensor
    view: View

    def write(self, k: Tensor, v: Tensor) -> None:
        """Overwrite the staged keys and values [T, H, D]; any number of times."""
        expected = (self.view.tokens, *self.k.shape[1:])
        for name, given in (("keys", k), ("values", v)):
            if given.shape != expected:
                raise UsageError(
                    f"{name} of shape {list(given.shape)} were given; the stage holds {list(expected)}."
                )
        run = self.view.staged_run
        for flat, given in ((self.k, k), (self.v, v)):
            if run is not None:
                flat[run[0] : run[1]].copy_(given.detach())
            else:
                write_slots(flat, self.view.staged, given)


def write_slots(flat: Tensor, slots: Tensor, values: Tensor) -> None:
    """Put values [n, H, D] into scattered slots of a layer [P*S, H, D]."""
    values = values.detach().to(flat.dtype)
    if flat.dtype.itemsize == 1:  # torch has no indexed copy of one-byte floats on every device
        flat, values = flat.view(torch.uint8), values.view(torch.uint8)
    flat.index_copy_(0, slots, values)


def _on_device(places: Places, device: str) -> Tensor:
    """int64 [n]"""
    if isinstance(places, range):
        return torch.arange(places.start, places.stop, device=device)
    return torch.from_numpy(places).to(device)


def slot_runs(slots: IntArray) -> tuple[tuple[int, int], ...]:
    """Cut slots into stretches of neighbours: [4, 5, 9] -> ((4, 6), (9, 10))."""
    if len(slots) == 0:
        return ()
    breaks = np.flatnonzero(np.diff(slots) != 1)
    starts = slots[np.concatenate([[0], breaks + 1])].tolist()
    stops = slots[np.concatenate([breaks, [len(slots) - 1]])].tolist()
    return tuple((start, stop + 1) for start, stop in zip(starts, stops, strict=True))
