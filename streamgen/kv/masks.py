"""Order among the staged tokens. The past is always visible, except behind a window.

A mask sees the keys in logical order: the visible past, then the staged tokens. Query i stands at place
past + i. A window counts the query itself; the first `sink` keys are seen through any window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from streamgen.errors import UsageError


@dataclass(frozen=True)
class Full:
    """Every staged token sees every other one: a chunk of frames, a scale."""

    def dense(self, past: int, tokens: int, device: torch.device | str = "cpu") -> Tensor | None:
        return None


@dataclass(frozen=True)
class Causal:
    """A token sees itself and what came before; with a window, the last `window` of those."""

    window: int | None = None
    sink: int = 0

    def __post_init__(self) -> None:
        _check_window(self.window, self.sink)

    def dense(self, past: int, tokens: int, device: torch.device | str = "cpu") -> Tensor | None:
        if not _hides(self.window, self.sink, past + tokens):
            return None if tokens == 1 else _triangle(past, tokens, device)
        query = past + torch.arange(tokens, device=device)[:, None]
        key = torch.arange(past + tokens, device=device)
        return (key <= query) & _in_window(query - key, key, self.window, self.sink)


@dataclass(frozen=True)
class Tree:
    """A node sees its ancestors, itself and the past; parents[i] < i, -1 = a child of the past."""

    parents: tuple[int, ...]
    window: int | None = None
    sink: int = 0
    depths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_window(self.window, self.sink)
        depths: list[int] = []
        for node, parent in enumerate(self.parents):
            if not -1 <= parent < node:
                raise UsageError(
                    f"Node {node} has parent {parent}; parents come before their children, -1 = none."
                )
            depths.append(0 if parent < 0 else depths[parent] + 1)
        object.__setattr__(self, "depths", tuple(depths))

    def dense(self, past: int, tokens: int, device: torch.device | str = "cpu") -> Tensor | None:
        if tokens != len(self.parents):
            raise UsageError(f"A tree of {len(self.parents)} nodes cannot mask {tokens} staged tokens.")
        depth = torch.tensor(self.depths, device=device)
        visible = torch.cat([torch.ones(tokens, past, dtype=torch.bool), _ancestors(self.parents)], dim=1)
        place = torch.cat([torch.arange(past, device=device), past + depth])
        distance = (past + depth)[:, None] - place
        return visible.to(device) & _in_window(distance, place, self.window, self.sink)


Mask = Full | Causal | Tree


def windowed(mask: Mask, window: int, sink: int, keys: int) -> Mask:
    """The same mask looking through a window, where the window hides any of the `keys`."""
    if isinstance(mask, Full) or not _hides(window, sink, keys):
        return mask
    if mask.window is not None and mask.window <= window:
        return mask
    return replace(mask, window=window, sink=sink)


def _triangle(past: int, tokens: int, device: torch.device | str) -> Tensor:
    """[T, past + T] of a plain order: several times faster than comparing places."""
    return torch.ones(tokens, past + tokens, dtype=torch.bool, device=device).tril_(past)


def _ancestors(parents: Sequence[int]) -> Tensor:
    seen = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            seen[node] |= seen[parent]
    return seen


def _in_window(distance: Tensor, key: Tensor, window: int | None, sink: int) -> Tensor:
    if window is None:
        return torch.ones_like(distance, dtype=torch.bool)
    return (distance < window) | (key < sink)


def _hides(window: int | None, sink: int, keys: int) -> bool:
    return window is not None and keys > window + sink


def _check_window(window: int | None, sink: int) -> None:
    if window is not None and window < 1:
        raise UsageError(
            f"A window of {window} tokens sees nothing; it counts the query itself, so give 1 or more."
        )
    if sink < 0:
        raise UsageError(f"A sink of {sink} tokens cannot be had; give 0 or more.")
