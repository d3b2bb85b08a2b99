"""Hierarchical retention of video tokens: recency in shallow layers, attention in deep ones, a blend between.

HERMES (arXiv 2601.14724, Eq. 1-5 and Appendix C); its released code (commit b505d95) decides where the paper
gives no number: the recency rates, time normalised by the slots, smoothing with the smoothed layer above.
Shapes: L layers, T video slots of a layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from streamgen.errors import UsageError
from streamgen.kv.table import IntArray

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache

Depth = Literal["shallow", "middle", "deep"]
Numbering = Literal["lazy", "eager"]  # at an eviction: when positions run out, or always
RELEASED = "b505d95"
_SMOOTHING: dict[Depth, float] = {"shallow": 0.1, "middle": 0.3, "deep": 0.4}


@dataclass(frozen=True)
class Hierarchical:
    """Each layer keeps the prompt and `budget` video tokens, of which deep layers give one to a summary.

    `compat="b505d95"` does as the released code does: another blend in the middle layers, and an eviction as
    soon as prompt and video together exceed the budget.
    """

    budget: int
    compat: Literal["b505d95"] | None = None
    positions: Numbering = "lazy"

    def __post_init__(self) -> None:
        if self.budget < 2:
            raise UsageError(
                f"A budget of {self.budget} video tokens cannot hold a summary and what it sums up; "
                "give at least 2, better a few frames."
            )
        if self.compat not in (None, RELEASED):
            raise UsageError(f"compat={self.compat!r} is not known; leave it out, or give {RELEASED!r}.")
        if self.positions not in ("lazy", "eager"):
            raise UsageError(f"positions={self.positions!r} is not known; choose 'lazy' or 'eager'.")

    def keep(self, cache: "KVCache", incoming: int) -> Sequence[IntArray] | None:
        """Staging lets nothing go: what goes is decided after a chunk, by its scores."""
        return None

    def due(self, prompt: int, video: int) -> bool:
        """Whether a layer of so many prompt and video tokens has to let go."""
        return (prompt + video if self.compat == RELEASED else video) > self.budget

    def scores(self, attention: Sequence[Tensor]) -> list[Tensor]:
        """The worth [T] of every slot in every layer, from the attention [T] that guidance texts pay to it.

        In shallow layers, where recency alone counts, only the length of it matters.
        """
        layers = len(attention)
        raw = [self._score(weights, layer, layers) for layer, weights in enumerate(attention)]
        return smoothed(raw, [depth(layer, layers) for layer in range(layers)])

    def chosen(self, scores: Sequence[Tensor]) -> list[IntArray]:
        """The rising slots that stay in each layer."""
        layers = len(scores)
        kept = []
        for layer, score in enumerate(scores):
            room = self.budget - (depth(layer, layers) == "deep")
            best = torch.topk(score, min(room, len(score)), sorted=False).indices
            kept.append(np.sort(best.cpu().numpy()).astype(np.int64))
        return kept

    def blend(self, layer: int, layers: int) -> tuple[float, float]:
        """How much recency counts in a layer, and how fast it fades."""
        kind = depth(layer, layers)
        if kind != "middle":
            return (1.0, 20.0) if kind == "shallow" else (0.0, 0.0)
        first, last = bounds(layers)
        way = (layer - first) / (last - first)
        share = 1.0 - 0.9 * way if self.compat == RELEASED else 0.75 - 0.6 * way
        return share, 20 - 19.5 * way

    def _score(self, weights: Tensor, layer: int, layers: int) -> Tensor:
        share, fading = self.blend(layer, layers)
        attended = (1 - share) * _spread(weights) if share < 1 else torch.zeros_like(weights)
        return attended + share * recency(len(weights), fading, weights.device) if share else attended


def bounds(layers: int) -> tuple[int, int]:
    """The first middle and the first deep layer: 10, 60 and 30 percent; fewer than 10 have no shallow one."""
    return int(layers * 0.1), int(layers * (1 - 0.3))


def depth(layer: int, layers: int) -> Depth:
    first, last = bounds(layers)
    return "shallow" if layer < first else "middle" if layer < last else "deep"


def recency(slots: int, fading: float, device: torch.device | str = "cpu") -> Tensor:
    """1 for the newest slot, fading to 0 for the oldest (Eq. 1, with time normalised by the slots)."""
    distance = (slots - 1 - torch.arange(slots, device=device, dtype=torch.float32)) / max(slots - 1, 1)
    return _spread(torch.exp(-fading * distance))


def smoothed(scores: Sequence[Tensor], depths: Sequence[Depth]) -> list[Tensor]:
    """Mix each layer with the smoothed one above it, slot by slot, from the last layer down (Eq. 5)."""
    result = list(scores)
    for layer in range(len(scores) - 2, -1, -1):
        weight = _SMOOTHING[depths[layer]]
        result[layer] = (1 - weight) * result[layer] + weight * _fit(result[layer + 1], len(result[layer]))
    return result


def _spread(values: Tensor) -> Tensor:
    """From 0 for the least to (nearly) 1 for the greatest."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low + 1e-6)


def _fit(score: Tensor, slots: int) -> Tensor:
    """The same score over another number of slots."""
    if len(score) == slots:
        return score
    return functional.interpolate(score[None, None], size=slots, mode="linear", align_corners=False)[0, 0]
