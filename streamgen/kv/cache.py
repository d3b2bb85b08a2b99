"""The past of one stream: staged, committed, forked, rewound, evicted.

Shapes: L layers, n tokens, H kv heads, D head dim, A position axes.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.compact import compact, plan_compaction
from streamgen.kv.errors import CacheStateError
from streamgen.kv.masks import Full, Mask
from streamgen.kv.reposition import Rotate, Shift, reposition
from streamgen.kv.retention import Retention
from streamgen.kv.sharing import keep_pages
from streamgen.kv.stage import Stage, TablePositions, open_stage
from streamgen.kv.table import BlockTable, Indices, IntArray, Places, check_index, pages_of, pick

if TYPE_CHECKING:
    from streamgen.kv.pool import PagePool


class KVCache:
    """One stream's past, in pages of a pool. Made by `PagePool.cache()` and `fork()`."""

    def __init__(
        self, pool: "PagePool", retention: Retention, reserve: int, rotated: bool, name: str
    ) -> None:
        self.pool = pool
        self.retention = retention
        self.reserve = reserve
        self.rotated = rotated
        self.name = name
        self.state = "open"
        self.opened: Stage | None = None
        self.tables: tuple[BlockTable, ...] = open_tables(pool, reserve, name)
        pool.caches[self] = None

    @property
    def tokens(self) -> int:
        """Tokens of the past (of the longest table, where layers keep different ones)."""
        return max(table.tokens for table in self.tables)

    @property
    def positions(self) -> IntArray | None:
        """Positions [n] or [n, A] in the first table, on the host; None when the stream has none."""
        return self.tables[0].positions

    def stage(
        self,
        tokens: int,
        mask: Mask | None = None,
        positions: TablePositions | None = None,
        replace: int = 0,
    ) -> Stage:
        """Make room for new tokens, or refuse before anything has changed.

        `replace` hides the last tokens of the past now and drops them at the commit.
        """
        self.require_idle("stage()")
        if tokens < 1 or replace < 0:
            raise UsageError(
                f"stage(tokens={tokens}, replace={replace}) stages nothing; give at least 1 and 0."
            )
        self.opened = open_stage(self, [tokens] * len(self.tables), mask or Full(), positions, replace)
        return self.opened

    def fork(self, name: str = "") -> "KVCache":
        """Share every page with a new cache; whoever writes first copies what it touches, and only that.

        The fork of a bounded stream is an ordinary paged cache: equal in content, not in one stretch.
        """
        self.require_idle("fork()")
        other = KVCache(self.pool, self.retention, 0, self.rotated, name or f"fork of {self.name}")
        for mine, table in zip(self.tables, other.tables, strict=True):
            table.entries = mine.entries
            table.pages = pages_of(mine.slots, mine.page_size)
            for page in table.pages:
                self.pool.pages.hold(page, table)
        return other

    def rewind(self, tokens: int) -> None:
        """Forget the last `tokens` tokens."""
        self.require_idle("rewind()")
        least = min(table.tokens for table in self.tables)
        if not 0 <= tokens <= least:
            raise UsageError(f"{self.name} cannot be rewound by {tokens} tokens; it holds {least}.")
        for table in self.tables:
            drop(self.pool, table, range(table.tokens - tokens))

    def evict(self, keep: Indices | Sequence[Indices]) -> None:
        """Keep only these rising logical indices and close the gaps.

        One list of indices for all tables, or a list of them, one for each.
        """
        self.require_idle("evict()")
        single = isinstance(keep, Tensor) or len(keep) == 0 or np.ndim(keep[0]) == 0
        lists = [keep] * len(self.tables) if single else keep
        kept = self.per_table(cast(Sequence[Indices], lists), "evict(keep=...)")
        plans = [plan_compaction(self.pool, *pair) for pair in zip(self.tables, kept, strict=True)]
        self.pool.pages.require(sum(plan.fresh for plan in plans), f"Compacting {self.name}")
        for table, plan in zip(self.tables, plans, strict=True):
            self.pool.tally.evictions += table.tokens - len(plan.entries)
            compact(self.pool, table, plan)

    def read(self, layer: int, tokens: slice | Indices = slice(None)) -> tuple[Tensor, Tensor]:
        """Keys and values [n, H, D] of one layer, gathered in the order asked for."""
        self.require_idle("read()")
        number, row = divmod(layer, self.pool.geometry.layers_per_page)
        table = self.tables[number]
        slots = torch.from_numpy(table.slots[pick(tokens, table.tokens)]).to(self.pool.device)
        k, v = self.pool.flat[row]
        return k.index_select(0, slots), v.index_select(0, slots)

    def append(
        self,
        k: Tensor,
        v: Tensor,
        positions: TablePositions | None = None,
        tables: Sequence[int] | None = None,
    ) -> None:
        """Add keys and values [layers, n, H, D] of finished tokens, to all tables or to some of them."""
        self.require_idle("append()")
        chosen = range(len(self.tables)) if tables is None else tables
        rows, count = len(chosen) * self.pool.geometry.layers_per_page, k.shape[1]
        if len(k) != rows or len(v) != rows or count == 0:
            raise UsageError(
                f"append() got keys {list(k.shape)} and values {list(v.shape)}; {len(chosen)} tables have "
                f"{rows} layers and take at least 1 token."
            )
        counts = [count if number in chosen else 0 for number in range(len(self.tables))]
        self.opened = open_stage(self, counts, Full(), positions, 0)
        with self.opened as stage:
            group = self.pool.geometry.layers_per_page
            layers = stage.layers()
            given = [layers[number * group + row] for number in chosen for row in range(group)]
            for layer, keys, values in zip(given, k, v, strict=True):
                layer.write(keys, values)
            stage.commit()

    def reposition(
        self,
        tokens: slice | Indices,
        rotate: Rotate,
        shift: Shift,
        tables: Sequence[int] | None = None,
    ) -> None:
        """Move tokens `shift` places on. Their keys are turned by `rotate(keys [n, H, D], total shift)`.

        The first call keeps the pristine keys; every later one turns those by the sum of all shifts, so no
        rounding builds up in any dtype. A shift is one number, or an array [n] or [n, A] of them.
        """
        self.require_idle("reposition()")
        reposition(self, tokens, rotate, shift, tables)

    def close(self) -> None:
        """Give every page back. An open stage is discarded; closing twice is harmless."""
        if self.opened is not None:
            self.opened.discard()
        for table in self.tables if self.state == "open" else ():
            self.pool.pages.release(table.pages, table)
        self.tables = tuple(BlockTable(table.page_size) for table in self.tables)
        self.pool.caches.pop(self, None)
        self.state = "closed"

    def __enter__(self) -> "KVCache":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def require_idle(self, call: str) -> None:
        """Refuse a call that cannot work on a closed, swapped or staged cache."""
        if self.state != "open":
            mend = "swap it in first" if self.state == "swapped out" else "open a new one"
            raise CacheStateError(f"{self.name} is {self.state} and cannot take {call}; {mend}.")
        if self.opened is not None:
            raise CacheStateError(
                f"{self.name} has an open stage and cannot take {call}; commit or discard it first."
            )

    def kept(self, incoming: int) -> list[IntArray] | None:
        """Ask the retention, and check its answer."""
        kept = self.retention.keep(self, incoming)
        return None if kept is None else self.per_table(kept, f"{type(self.retention).__name__}.keep()")

    def per_table(self, indices: Sequence[Indices], what: str) -> list[IntArray]:
        """Check one list of rising logical indices for each table."""
        if len(indices) != len(self.tables):
            raise UsageError(
                f"{what} gave {len(indices)} lists of indices; {self.name} has {len(self.tables)} tables."
            )
        return [
            check_index(pick(index, table.tokens), table.tokens, what)
            for index, table in zip(indices, self.tables, strict=True)
        ]

    def trim(self) -> None:
        """Let go what the retention no longer keeps."""
        kept = self.kept(0)
        if kept is not None:
            for table, index in zip(self.tables, kept, strict=True):
                self.pool.tally.evictions += table.tokens - len(index)
                drop(self.pool, table, index)


def open_tables(pool: "PagePool", reserve: int, name: str) -> tuple[BlockTable, ...]:
    """One table for each group of layers, each with its stretch when tokens are reserved."""
    size = pool.geometry.page_size
    if reserve < 0:
        raise UsageError(f"A reserve of {reserve} tokens cannot be had; give 0 for none.")
    count = -(-reserve // size)
    pool.pages.require(count * pool.geometry.tables, f"The reserve of {name}")
    tables: list[BlockTable] = []
    try:
        for _ in range(pool.geometry.tables):
            table = BlockTable(size)
            if count:
                table.pages = pool.pages.take_stretch(count, table)
                start = table.pages[0] * size
                table.stretch = range(start, start + reserve)
            tables.append(table)
    except BaseException:
        for table in tables:
            pool.pages.release(table.pages, table)
        raise
    return tuple(tables)


def drop(pool: "PagePool", table: BlockTable, keep: Places) -> None:
    """Forget all tokens but `keep`; pages without tokens go back, except those of a stretch."""
    table.entries = table.entries.take(keep)
    if table.stretch is None:
        keep_pages(pool, table, pages_of(table.slots, table.page_size))
