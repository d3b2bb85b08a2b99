"""How long texts keep people waiting: first tokens, gaps, whole texts, and how many meet an objective.

All times are seconds on one clock. The window of rates runs from the first arrival to the last token.
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

RANKS = (50, 95, 99)


@dataclass(frozen=True)
class Objective:
    """What a text must keep to count as good."""

    first: float  # seconds to the first token
    gap: float  # mean seconds between later tokens


@dataclass
class _Waiting:
    arrived: float
    times: list[tuple[float, int]] = field(default_factory=list)  # when, and how many tokens


@dataclass
class TextMeter:
    """Notes when texts were asked for and when their tokens came."""

    clock: Callable[[], float] = time.perf_counter
    _texts: dict[Hashable, _Waiting] = field(default_factory=dict)

    def arrive(self, key: Hashable) -> None:
        """A text is asked for."""
        self._texts[key] = _Waiting(self.clock())

    def add(self, key: Hashable, tokens: int) -> None:
        """Tokens of a text have come."""
        if tokens:
            self._texts[key].times.append((self.clock(), tokens))

    def summary(self, objective: Objective) -> dict[str, object]:
        """Percentiles by nearest rank, rates over the window, and the goodput under the objective."""
        done = [text for text in self._texts.values() if text.times]
        if not done:
            return {"texts": 0, "tokens": 0}
        first = [text.times[0][0] - text.arrived for text in done]
        whole = [text.times[-1][0] - text.arrived for text in done]
        gaps = [_mean_gap(text) for text in done]
        window = max(text.times[-1][0] for text in done) - min(text.arrived for text in done)
        tokens = sum(count for text in done for _, count in text.times)
        good = sum(
            start <= objective.first and gap <= objective.gap for start, gap in zip(first, gaps, strict=True)
        )
        return {
            "texts": len(done),
            "tokens": tokens,
            "window_s": window,
            "first_token_s": percentiles(first),
            "gap_s": percentiles(gaps),
            "latency_s": percentiles(whole),
            "tokens_per_s": tokens / window if window > 0 else 0.0,
            "objective_s": {"first_token": objective.first, "gap": objective.gap},
            "good_texts_per_s": good / window if window > 0 else 0.0,
            "good_share": good / len(done),
        }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99 by nearest rank."""
    ordered = sorted(values)
    return {f"p{rank}": ordered[math.ceil(rank / 100 * len(ordered)) - 1] for rank in RANKS}


def _mean_gap(text: _Waiting) -> float:
    (start, begun), (end, _) = text.times[0], text.times[-1]
    later = sum(count for _, count in text.times) - begun
    return (end - start) / later if later else 0.0
