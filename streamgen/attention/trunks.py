"""Caches that begin in the same slots: what they share is stored once and can be read once for all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamgen.kv.masks import Full, Mask
from streamgen.kv.view import View


@dataclass(frozen=True)
class Trunk:
    """Some caches of a batch, and how many tokens all of them begin with; one cache shares nothing."""

    rows: tuple[int, ...]
    tokens: int


def trunks(views: Sequence[View], masks: Sequence[Mask]) -> tuple[Trunk, ...]:
    """The caches of a batch by their beginnings; every query of a trunk sees all of it."""
    alike: dict[object, list[int]] = {}
    for row, (view, mask) in enumerate(zip(views, masks, strict=True)):
        first = int(view.visible.places[0]) if _shows_the_past(view, mask) else None
        alike.setdefault(("alone", row) if first is None else first, []).append(row)
    return tuple(Trunk(tuple(rows), _agreement([views[row] for row in rows])) for rows in alike.values())


def longest_trunk(views: Sequence[View], masks: Sequence[Mask]) -> int:
    """Tokens of the longest trunk that several caches share, 0 where there is none."""
    return 0 if len(views) == 1 else max(trunk.tokens for trunk in trunks(views, masks))


def _shows_the_past(view: View, mask: Mask) -> bool:
    if view.past == 0:
        return False
    if isinstance(mask, Full) or mask.window is None:
        return True
    return view.past + view.tokens <= mask.window + mask.sink


def _agreement(views: Sequence[View]) -> int:
    if len(views) == 1:
        return 0
    shortest = min(view.past for view in views)
    slots = np.stack([view.visible.slots[:shortest] for view in views])
    same = (slots == slots[0]).all(axis=0)
    return shortest if same.all() else int(same.argmin())
