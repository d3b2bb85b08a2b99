"""The studio behind the page: models, the worker, and every session that is open."""

import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

from streamgen.errors import UsageError

from .ledger import arena_record
from .player import Player
from .settings import StudioSettings
from .shelf import Shelf
from .tabs import TABS
from .wire import Words
from .worker import Worker

KEY = re.compile(r"[\w-]{16,64}")


class AbsentError(UsageError):
    """There is nothing of this name."""


class StudioFullError(UsageError):
    """As many sessions are open as may be."""


class Studio:
    """Opens sessions and ends them; one loaded model serves all of a tab."""

    def __init__(self, settings: StudioSettings, shelf: Shelf | None = None) -> None:
        self.settings = settings
        self.shelf = shelf or Shelf(settings.models, settings.memory, settings.device)
        self.worker = Worker()
        self.players: dict[str, Player] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="streamgen-studio-"))
        self._listeners: dict[Player, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._trying = threading.Lock()
        self._kernels: list[dict[str, Any]] | None = None

    def start(self) -> None:
        """Begin to work."""
        self.worker.start()

    def stop(self) -> None:
        """End every session and forget their files."""
        self.worker.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, tab: str, on_change: Callable[[], None], key: str | None = None) -> Player:
        """A session for one page, or a sentence why not."""
        there = [name for name, kind in TABS.items() if kind.model in self.shelf.slots]
        if tab not in there:
            raise UsageError(f"There is no tab {tab[:40]!r}; there are {', '.join(there)}.")
        player = TABS[tab].player(self.shelf.slots[TABS[tab].model], self.folder, on_change)
        player.studio = self
        with self._lock:
            self._admit(player, key)

        def tell() -> None:
            player.outbox.show("model", **self.facts(tab), session=player.key, upload=self.settings.upload)
            self.worker.wake()

        self._listeners[player] = tell
        self.shelf.listen(tell)
        self.worker.join(player)
        tell()
        return player

    def player(self, key: str) -> Player:
        """The session of this key."""
        player = self.players.get(key)
        if player is None:
            raise AbsentError("There is no such session, or it has ended.")
        return player

    def leave(self, player: Player) -> "Future[None]":
        """End a session: its work stops within a chunk, and its pages are free at once."""
        with self._lock:
            self.players.pop(player.key, None)
            tell = self._listeners.pop(player, None)
        if tell is not None:
            self.shelf.forget(tell)
        return self.worker.leave(player)

    def hear(self, player: Player, words: Words) -> None:
        """Something that a page asks for."""
        if not player.hear(words):
            player.order(words)
            self.worker.wake()

    def facts(self, tab: str) -> Words:
        """What the page should know of a tab's model."""
        slot = self.shelf.slots[TABS[tab].model]
        return slot.record() | (TABS[tab].facts(slot.pipeline) if slot.state == "ready" else {})

    def memory(self) -> "Future[dict[str, Any]]":
        """The arena and every session's pools, read between two turns."""
        return self.worker.call(
            lambda: {
                "arena": arena_record(self.shelf.arena),
                "sessions": [player.record() for player in list(self.players.values())],
            }
        )

    def kernels(self) -> list[dict[str, Any]]:
        """Every attention kernel with its self-test, tried once. It takes its time and touches no session."""
        from streamgen.attention.report import describe_kernels

        with self._trying:
            if self._kernels is None:
                device = None if self.shelf.arena is None else self.shelf.arena.device.partition(":")[0]
                self._kernels = [asdict(report) for report in describe_kernels(device)]
            return self._kernels

    def _admit(self, player: Player, key: str | None) -> None:
        if len(self.players) >= self.settings.sessions:
            raise StudioFullError(
                f"{len(self.players)} sessions are open and this studio takes {self.settings.sessions}; "
                "close a tab, or start it with a larger --sessions."
            )
        if key is not None:
            if KEY.fullmatch(key) is None or key in self.players:
                raise UsageError("The key of a session is new, and 16 to 64 letters, digits, - or _.")
            player.key = key
        self.players[player.key] = player
