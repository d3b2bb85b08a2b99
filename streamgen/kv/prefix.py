"""Finding the pages of an equal beginning: one prompt computed once serves every stream that starts with it.

A hash chain over full pages. A named page stays usable after its last table has gone, until it is taken for
something else; streams free their last page first, so beginnings live longest.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from streamgen.errors import UsageError
from streamgen.kv.table import IntArray, Tokens, settled, slots_of, stretch_of

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache
    from streamgen.kv.pool import PagePool


@dataclass(eq=False)
class _Entry:
    """One full page of every table, known by its tokens and by all that came before."""

    parent: "_Entry | None"
    tokens: tuple[int, ...]
    extra: str
    digest: bytes
    pages: tuple[int, ...]
    positions: tuple[IntArray | None, ...]
    children: "dict[_Entry, None]" = field(default_factory=dict)


class PrefixIndex:
    """Names full pages by their tokens; `extra` (an adapter, an image) sets equal tokens apart."""

    def __init__(self, pool: "PagePool") -> None:
        self.pool = pool
        self.asked = 0  # tokens looked up, ever
        self.found = 0  # tokens that need not be computed, ever
        self._roots: dict[_Entry, None] = {}
        self._entries: dict[bytes, _Entry] = {}

    def publish(self, cache: "KVCache", tokens: Sequence[int], extra: str = "") -> int:
        """Name the full pages of a cache that begins with `tokens`; returns how many of them are named."""
        self._require_plain(cache, len(tokens))
        size = self.pool.geometry.page_size
        parent: _Entry | None = None
        count = len(tokens) // size
        for number in range(count):
            piece = tuple(tokens[number * size : (number + 1) * size])
            parent = self._find(parent, piece, extra) or self._name(cache, number, parent, piece, extra)
        return count

    def adopt(self, cache: "KVCache", tokens: Sequence[int], extra: str = "") -> int:
        """Let an empty cache begin with the pages that are known; returns how many tokens it has now.

        At least one token is left to compute. A page that agrees only in part is shared too: the first write
        behind the agreement copies it.
        """
        cache.require_idle("adopt()")
        if cache.tokens or cache.reserve or cache.pool is not self.pool:
            raise UsageError(
                f"{cache.name} cannot adopt a prefix; use an empty, unreserved cache of its pool."
            )
        chain, count = self._longest(tokens, extra)
        count = min(count, len(tokens) - 1)
        size = self.pool.geometry.page_size
        self.asked += len(tokens)
        if count <= 0:
            return 0
        chain = chain[: -(-count // size)]
        for number, table in enumerate(cache.tables):
            pages = [entry.pages[number] for entry in chain]
            for page in pages:
                self.pool.pages.hold(page, table)
            table.pages = pages
            known = [place for entry in chain if (place := entry.positions[number]) is not None]
            positions = np.concatenate(known)[:count] if len(known) == len(chain) else None
            table.entries = Tokens(stretch_of(slots_of(pages, size)[:count]), positions)
        self.found += count
        return count

    def _longest(self, tokens: Sequence[int], extra: str) -> tuple[list[_Entry], int]:
        """The chain of pages that agree, the last one perhaps in part, and how many tokens agree."""
        size = self.pool.geometry.page_size
        chain: list[_Entry] = []
        while len(tokens) - len(chain) * size >= size:
            start = len(chain) * size
            entry = self._find(chain[-1] if chain else None, tuple(tokens[start : start + size]), extra)
            if entry is None:
                break
            chain.append(entry)
        count = len(chain) * size
        rest = tuple(tokens[count : count + size])
        last = chain[-1] if chain else None
        siblings = last.children if last else self._roots
        agreed = [(_agreement(entry.tokens, rest), entry) for entry in siblings if entry.extra == extra]
        best, entry = max(agreed, key=lambda pair: pair[0], default=(0, None))
        return (chain, count) if entry is None or best == 0 else ([*chain, entry], count + best)

    def _find(self, parent: _Entry | None, piece: tuple[int, ...], extra: str) -> _Entry | None:
        entry = self._entries.get(digest(parent.digest if parent else b"", piece, extra))
        # Equal hashes are not trusted: the tokens and the very same beginning must agree.
        same = entry is not None and (entry.tokens, entry.extra) == (piece, extra) and entry.parent is parent
        return entry if same else None

    def _name(
        self, cache: "KVCache", number: int, parent: _Entry | None, piece: tuple[int, ...], extra: str
    ) -> _Entry:
        size = self.pool.geometry.page_size
        span = slice(number * size, (number + 1) * size)
        known = digest(parent.digest if parent else b"", piece, extra)
        pages = tuple(int(table.slots[span.start]) // size for table in cache.tables)
        positions = tuple(
            None if table.positions is None else table.positions[span].copy() for table in cache.tables
        )
        entry = _Entry(parent, piece, extra, known, pages, positions)
        for page in pages:
            self.pool.pages.forget(page)
        if known in self._entries:
            self._forget(self._entries[known])
        self._entries[known] = entry
        (parent.children if parent else self._roots)[entry] = None
        for page in pages:
            self.pool.pages.mark(page, lambda: self._forget(entry))
        return entry

    def _forget(self, entry: _Entry) -> None:
        """What follows a forgotten page cannot be reached any more and is forgotten with it."""
        pending = [entry]
        (entry.parent.children if entry.parent else self._roots).pop(entry, None)
        while pending:
            gone = pending.pop()
            pending += gone.children
            if self._entries.get(gone.digest) is gone:
                del self._entries[gone.digest]
            for page in gone.pages:
                self.pool.pages.unmark(page)

    def _require_plain(self, cache: "KVCache", count: int) -> None:
        cache.require_idle("publish()")
        if (
            cache.pool is not self.pool
            or cache.reserve
            or any(table.tokens < count for table in cache.tables)
        ):
            raise UsageError(
                f"{cache.name} cannot publish {count} tokens; use an unreserved cache that has them."
            )
        full = count // self.pool.geometry.page_size * self.pool.geometry.page_size
        for table in cache.tables:
            origins = table.entries.origins
            turned = origins is not None and (origins.home[:full] >= 0).any()
            if turned or settled(table.slots[:full], table.page_size) < full:
                raise UsageError(f"{cache.name} has evicted or turned these tokens; publish before that.")


def digest(parent: bytes, tokens: tuple[int, ...], extra: str) -> bytes:
    """The name of a page: its tokens, what sets it apart, and the name of the page before."""
    return hashlib.sha256(parent + json.dumps([extra, tokens]).encode()).digest()


def _agreement(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """How many leading tokens are equal."""
    pairs = zip(left, right, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
