"""The branches of a world in a page: one, or a fork beside it; all of them take every step together.

A branch is a WorldSession.
"""

from typing import Any

from streamgen.errors import UsageError

from .ledger import pool_of

MOST = 2


class Branches:
    """What is asked of all of them happens to all or to none."""

    def __init__(self, world: Any) -> None:
        self.worlds: list[Any] = [world]

    @property
    def first(self) -> Any:
        return self.worlds[0]

    @property
    def undoable(self) -> int:
        """Chunks that all of them can undo."""
        return min(world.undoable for world in self.worlds)

    @property
    def pools(self) -> list[Any]:
        """Their pools; a fork that did not move on yet has none."""
        return [pool for world in self.worlds if (pool := pool_of(world)) is not None]

    def numbered(self, number: int | None) -> list[int]:
        """One branch by number, or all."""
        if number is None:
            return list(range(len(self.worlds)))
        if not 0 <= number < len(self.worlds):
            raise UsageError(f"There is no branch {number}; there are {len(self.worlds)}, counted from 0.")
        return [number]

    def step(self, actions: Any, since: float) -> list[Any]:
        """The next chunk of each."""
        chunks: list[Any] = []
        try:
            for world in self.worlds:
                chunks.append(world.step(actions, since))
        except BaseException:
            for world in self.worlds[: len(chunks)]:
                world.undo()
            raise
        return chunks

    def undo(self) -> None:
        """Take back the last chunk of each."""
        if not self.undoable:
            most = self.first.request.undo
            raise UsageError(f"No chunk can be undone now; at most {most} can, and a fork begins with none.")
        for world in self.worlds:
            world.undo()

    def fork(self) -> None:
        """Another one with the same past."""
        if len(self.worlds) >= MOST:
            raise UsageError(f"There are {MOST} branches already; keep one of them first.")
        self.worlds.append(self.first.fork())

    def keep(self, number: int) -> None:
        """Close the others."""
        [number] = self.numbered(number)
        kept = self.worlds[number]
        for world in self.worlds:
            if world is not kept:
                world.close()
        self.worlds = [kept]

    def close(self) -> None:
        """Give every page back."""
        for world in self.worlds:
            world.close()
