"""A stage: slots for new tokens that are not part of the past until they are committed.

T staged tokens, A position axes. One draft for each table of the cache.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.draft import Draft
from streamgen.kv.errors import CacheStateError
from streamgen.kv.masks import Full, Mask, windowed
from streamgen.kv.plan import Plan, plan_table
from streamgen.kv.retention import SinkWindow
from streamgen.kv.sharing import refuse_if_read
from streamgen.kv.table import BlockTable, Indices, IntArray, check_index, pick
from streamgen.kv.view import LayerKV, TableKV, View

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache

Positions = Tensor | npt.ArrayLike  # [T] or [T, A] for every table
TablePositions = Positions | list[IntArray]  # or a list, one array for each table


class Stage:
    """Staged tokens of one cache. Leaving the with-block without `commit` discards them."""

    def __init__(self, cache: "KVCache", drafts: Sequence[Draft], mask: Mask) -> None:
        self.cache = cache
        self.mask = mask
        self._drafts = tuple(drafts)
        self.open = True
        pool, size = cache.pool, cache.pool.geometry.page_size
        self._tables = tuple(
            TableKV(pool.flat, View(draft.visible, len(draft.past), draft.plan.tokens, size, pool.device))
            for draft in drafts
        )

    @property
    def tokens(self) -> int:
        return max(draft.plan.tokens for draft in self._drafts)

    @property
    def past(self) -> int:
        """Visible past tokens (of the longest table)."""
        return max(len(draft.past) for draft in self._drafts)

    @property
    def positions(self) -> IntArray | None:
        """Positions of the staged tokens in the first table, on the host."""
        return self._drafts[0].staged.positions

    @property
    def tables(self) -> tuple[TableKV, ...]:
        """What a kernel reads: the layers of each table, and what their staged queries see."""
        return self._tables

    @property
    def views(self) -> tuple[View, ...]:
        """One view for each table."""
        return tuple(table.view for table in self.tables)

    def layers(self) -> Sequence[LayerKV]:
        """One for each layer of the model, in order."""
        return [LayerKV(k, v, table.view) for table in self.tables for k, v in table.flat]

    def commit(self, keep: Indices | None = None) -> None:
        """Make the staged tokens part of the past: all, or those in `keep` (an accepted path of a tree)."""
        self._require_open()
        index = None if keep is None else self._kept(keep)
        for draft in self._drafts:
            draft.commit(index)
        self._close()
        self.cache.trim()

    def discard(self) -> None:
        """Leave no trace, whatever was written."""
        self._require_open()
        for draft in reversed(self._drafts):
            draft.discard()
        self._close()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.open:
            self.discard()

    def _close(self) -> None:
        self.open = False
        self.cache.opened = None

    def _require_open(self) -> None:
        if not self.open:
            raise CacheStateError("This stage was committed or discarded before; open a new one.")

    def _kept(self, keep: Indices) -> IntArray:
        return check_index(pick(keep, self.tokens), self.tokens, "commit(keep=...)")


def stage_together(
    caches: Sequence["KVCache"],
    tokens: int,
    mask: Mask | None = None,
    positions: Sequence[TablePositions] | None = None,
) -> list[Stage]:
    """Stage the same number of tokens in several caches (positions: one entry for each), all or nothing."""
    given = [None] * len(caches) if positions is None else list(positions)
    if len(given) != len(caches):
        raise UsageError(
            f"{len(given)} entries of positions were given for {len(caches)} caches; give one for each."
        )
    stages: dict[int, Stage] = {}
    with ExitStack() as undo:
        # Bounded streams first: they move shared pages away, which a fork must not be reading yet.
        for number in sorted(range(len(caches)), key=lambda number: not caches[number].reserve):
            stage = caches[number].stage(tokens, mask or Full(), given[number])
            stages[number] = undo.enter_context(stage)
        undo.pop_all()
    return [stages[number] for number in range(len(caches))]


def open_stage(
    cache: "KVCache",
    counts: Sequence[int],
    mask: Mask,
    positions: TablePositions | None,
    replace: int,
) -> Stage:
    """Count every page, then take them; `counts` = staged tokens of each table."""
    plans = _plan(cache, counts, mask, replace)
    placed = [
        _positions(positions, number, plan, table)
        for number, (plan, table) in enumerate(zip(plans, cache.tables, strict=True))
    ]
    pool = cache.pool
    pool.pages.require(sum(plan.pages for plan in plans), f"Staging {max(counts)} tokens in {cache.name}")
    for table, plan in zip(cache.tables, plans, strict=True):
        refuse_if_read(pool, table, plan.saves)
    drafts: list[Draft] = []
    try:
        for table, plan, place in zip(cache.tables, plans, placed, strict=True):
            drafts.append(Draft(pool, table, plan, place))
    except BaseException:
        for draft in reversed(drafts):
            draft.discard()
        raise
    return Stage(cache, drafts, _stage_mask(cache, mask, plans))


def _plan(cache: "KVCache", counts: Sequence[int], mask: Mask, replace: int) -> list[Plan]:
    # Each causal query looks back on its own, so the earliest one decides what must stay visible.
    incoming = (max(counts) if isinstance(mask, Full) else 1) - replace
    kept = cache.kept(incoming)
    plans = []
    for number, (table, count) in enumerate(zip(cache.tables, counts, strict=True)):
        if replace > table.tokens:
            raise UsageError(
                f"{replace} tokens cannot be replaced in {cache.name}, which holds {table.tokens}."
            )
        stays = table.tokens - replace
        keep = range(stays) if kept is None else kept[number][kept[number] < stays]
        plans.append(plan_table(table, cache.pool.pages, keep, replace, count))
    return plans


def _stage_mask(cache: "KVCache", mask: Mask, plans: Sequence[Plan]) -> Mask:
    if not isinstance(cache.retention, SinkWindow):
        return mask
    keys = max(len(plan.keep) + plan.tokens for plan in plans)
    return windowed(mask, cache.retention.window, cache.retention.sink, keys)


def _positions(given: TablePositions | None, number: int, plan: Plan, table: BlockTable) -> IntArray | None:
    known, empty = table.positions, table.tokens == 0
    if plan.tokens == 0:
        return None
    if given is None:
        if known is not None and not empty:
            raise UsageError("This stream stores positions; give the positions of the new tokens too.")
        return None
    if known is None and not empty:
        raise UsageError(
            "This stream was begun without positions; leave them out, or begin a new one with them."
        )
    chosen: Positions = given
    if isinstance(given, list) and given and isinstance(given[0], (np.ndarray, Tensor)):
        chosen = given[number]
    array = np.array(chosen.cpu() if isinstance(chosen, Tensor) else chosen, dtype=np.int64)
    if array.ndim not in (1, 2) or len(array) != plan.tokens:
        raise UsageError(f"Positions of shape {list(array.shape)} were given for {plan.tokens} tokens.")
    if known is not None and len(plan.keep) and array.shape[1:] != known.shape[1:]:
        raise UsageError(
            f"Positions of shape {list(array.shape)} were given and this stream stores {list(known.shape)}; "
            "give as many axes for each token."
        )
    return array
