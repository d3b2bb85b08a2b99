"""Which past tokens stay visible while new ones come in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamgen.errors import UsageError
from streamgen.kv.table import IntArray

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache


class Retention(Protocol):
    """Answers, for each table, which logical indices stay; None = all of them.

    `incoming` is by how many tokens the past is about to grow: asked with the staged tokens (fewer when they
    replace others, one when each of them looks back on its own), and once more with 0 after the commit.
    """

    def keep(self, cache: "KVCache", incoming: int) -> Sequence[IntArray] | None: ...


@dataclass(frozen=True)
class KeepAll:
    """Nothing is ever forgotten."""

    def keep(self, cache: "KVCache", incoming: int) -> Sequence[IntArray] | None:
        return None


@dataclass(frozen=True)
class SinkWindow:
    """The first `sink` tokens of the stream and the last `window` tokens, the incoming ones included."""

    window: int
    sink: int = 0

    def __post_init__(self) -> None:
        if self.window < 1 or self.sink < 0:
            raise UsageError(
                f"SinkWindow(window={self.window}, sink={self.sink}) keeps nothing new; "
                f"give a window of at least 1 token and a sink of at least 0."
            )

    def keep(self, cache: "KVCache", incoming: int) -> Sequence[IntArray] | None:
        counts = [table.tokens for table in cache.tables]
        if all(count + incoming <= self.window + self.sink for count in counts):
            return None
        return [self._kept(count, count + incoming - self.window) for count in counts]

    def _kept(self, count: int, cut: int) -> IntArray:
        index = np.arange(count, dtype=np.int64)
        return index[(index < self.sink) | (index >= cut)]
