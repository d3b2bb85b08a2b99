"""The pages of one world session: its ring, the marks it can go back to, and the forks still living in it."""

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.kv.cache import KVCache
from streamgen.kv.errors import OutOfPagesError
from streamgen.kv.geometry import Geometry
from streamgen.kv.pool import PagePool
from streamgen.kv.retention import SinkWindow
from streamgen.kv.ring import Mark, lay, mark, places
from streamgen.kv.table import IntArray

Result = TypeVar("Result")


@dataclass(frozen=True)
class Room:
    """How much a session needs: a ring of tokens, and as many pages again for what is overwritten."""

    arena: Arena
    geometry: Geometry
    retention: SinkWindow
    chunk: int  # tokens
    undo: int  # chunks

    @property
    def ring(self) -> int:
        return self.retention.window + self.retention.sink

    @property
    def pages(self) -> int:
        """The ring, and room for what is overwritten: by a recache of all of it, or by the last chunks."""
        size = self.geometry.page_size
        ring, sink = -(-self.ring // size), -(-self.retention.sink // size)
        chunk = min(ring, -(-self.chunk // size) + 1 + sink)  # a chunk touches one more, and turns the sink
        return ring + max(ring + chunk, (self.undo + 2) * chunk)

    def pool(self) -> PagePool:
        return PagePool(self.arena, self.geometry, self.pages, name="world memory")


class WorldMemory:
    """A ring in a pool of its own; a fork borrows its parent's pages until one of the two moves on."""

    def __init__(self, room: Room, parent: "WorldMemory | None" = None) -> None:
        self.room = room
        self.marks: deque[Mark] = deque()
        self.guests: weakref.WeakSet[WorldMemory] = weakref.WeakSet()
        self.host: WorldMemory | None = None
        self.borrowed: Mark | None = None
        self.ring: KVCache | None = None
        self.stored: PagePool | None = None
        self.closed = False
        if parent is None:
            self._open(room)
        else:
            self._borrow(parent)

    @property
    def cache(self) -> KVCache:
        """The ring; a fork that still borrows gets one of its own here."""
        if self.borrowed is not None:
            self._move_out(self.borrowed)
        if self.ring is None:
            state = "closed; start a new one" if self.closed else "offloaded; resume() it first"
            raise UsageError(f"This session is {state}.")
        return self.ring

    def change(self, work: Callable[[KVCache], Result], kept: int = 0) -> Result:
        """Change the ring: forks leave first, and old marks give way where pages are short."""
        cache = self.cache
        for guest in list(self.guests):
            guest.cache  # noqa: B018 -- moves it out
        while True:
            try:
                return work(cache)
            except OutOfPagesError:
                if len(self.marks) <= kept:
                    raise
                self.marks.popleft().close()

    def remember(self) -> None:
        """Mark this moment; the oldest mark goes when there are more than can be undone."""
        cache = self.cache
        self.marks.append(mark(cache))
        while len(self.marks) > self.room.undo:
            self.marks.popleft().close()

    def forget(self) -> None:
        """Drop every mark."""
        while self.marks:
            self.marks.pop().close()

    def go_back(self, moments: int) -> None:
        """Return to the mark before the last `moments` chunks; later marks are gone."""
        for _ in range(moments - 1):
            self.marks.pop().close()
        last = self.marks.pop()
        self.change(lambda cache: lay(cache, last.cache, last.places))
        last.close()

    def fork(self) -> "WorldMemory":
        """The same pages for another session; nothing is copied yet."""
        return WorldMemory(self.room, parent=self)

    def offload(self) -> None:
        """Move the ring to host memory and give every byte of the device back; marks are forgotten."""
        cache = self.cache
        host = replace(self.room, arena=Arena(device="cpu"))
        stored = PagePool(host.arena, host.geometry, -(-host.ring // host.geometry.page_size), "offloaded")
        try:
            ring = stored.cache(self.room.retention, reserve=self.room.ring, name="world")
            lay(ring, cache, places(cache))
        except BaseException:
            stored.close()
            raise
        self._leave()
        self.stored = stored

    def resume(self) -> None:
        """Bring an offloaded ring back."""
        if self.stored is None:
            return
        [ring] = self.stored.caches
        self._take(ring, places(ring))
        self.stored.close()
        self.stored = None

    def adopt(self, load: Callable[[PagePool], KVCache]) -> None:
        """Replace the ring by one that `load` opens in a fresh pool."""
        pool = self.room.pool()
        try:
            ring = load(pool)
        except BaseException:
            pool.close()
            raise
        self._leave()
        self.ring = ring

    def close(self) -> None:
        """Give every page back; forks that still live here move out first."""
        self._leave()
        if self.borrowed is not None:
            self.borrowed.close()
            self._part()
        if self.stored is not None:
            self.stored.close()
            self.stored = None
        self.closed = True

    def _leave(self) -> None:
        if self.ring is None:
            return
        pool = self.ring.pool
        try:
            for guest in list(self.guests):
                guest.cache  # noqa: B018 -- moves it out
        finally:
            pool.close()
            self.marks.clear()
            self.ring = None

    def _open(self, room: Room) -> None:
        pool = room.pool()
        try:
            self.ring = pool.cache(room.retention, reserve=room.ring, name="world")
        except BaseException:
            pool.close()
            raise

    def _borrow(self, parent: "WorldMemory") -> None:
        if parent.borrowed is not None:
            self.host, self.borrowed = parent.host, parent.borrowed.again()
        else:
            self.host, self.borrowed = parent, mark(parent.cache)
        assert self.host is not None, "a borrowed mark has a host"
        self.host.guests.add(self)

    def _move_out(self, moment: Mark) -> None:
        self._take(moment.cache, moment.places)
        moment.close()
        self._part()

    def _part(self) -> None:
        if self.host is not None:
            self.host.guests.discard(self)
        self.borrowed = self.host = None

    def _take(self, source: KVCache, where: tuple[IntArray, ...]) -> None:
        self._open(self.room)
        assert self.ring is not None, "a ring was opened"
        try:
            lay(self.ring, source, where)
        except BaseException:
            self.ring.pool.close()
            self.ring = None
            raise
