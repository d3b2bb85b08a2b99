"""A studio without a browser: tiny random worlds, and the other end of their sockets."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.testclient import TestClient, WebSocketTestSession

from apps.studio.server import application
from apps.studio.settings import StudioSettings
from apps.studio.shelf import Shelf
from apps.studio.studio import Studio
from apps.studio.wire import unpack
from streamgen.kv import Arena

PATIENCE = 60.0  # seconds after which a test gives up; never the time that something takes
# Words that may come before the awaited ones; for the first of them anything may be passed over.
BESIDE = ("model", "started", "readout", "warning", "stopped")
ORDINARY = (*BESIDE, "opened", "watching", "seen", "ended", "piece", "answered", "writing")


@contextmanager
def serving(
    models: dict[str, Path],
    settings: StudioSettings | None = None,
    memory: str | None = None,
    shelf: Shelf | None = None,
) -> Iterator[tuple[TestClient, Studio]]:
    """A studio with these checkpoints loaded, or with a shelf of its own, without the Gradio page."""
    shelf = shelf or Shelf({tab: str(folder) for tab, folder in models.items()}, memory, "cpu")
    studio = Studio(settings or StudioSettings(), shelf)
    with TestClient(application(studio, Starlette)) as client:
        until(lambda: all(slot.state in ("ready", "failed") for slot in shelf.slots.values()))
        yield client, studio


def until(happened: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait for it."""
    end = time.monotonic() + seconds
    while not (what := happened()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return what


class Page:
    """The other end of a live socket, as the scripts of the page behave."""

    def __init__(self, socket: WebSocketTestSession) -> None:
        self.socket = socket
        self.notes: list[dict[str, Any]] = []
        self.key = ""  # of its session, once it was told

    def ask(self, do: str, **words: Any) -> None:
        self.socket.send_text(json.dumps({"do": do, **words}))

    def picture(self, answer: bool = True) -> tuple[dict[str, Any], list[bytes]]:
        """The next picture, and by default the answer that it was shown."""
        while True:
            message = self.socket.receive()
            if message.get("bytes") is not None:
                head, jpegs = unpack(message["bytes"])
                if answer:
                    self.ask("shown", picture=head["picture"])
                return head, jpegs
            self._keep(message)

    def note(self, kind: str) -> dict[str, Any]:
        """The next words of this kind; pictures on the way are answered. A refusal is not waited past."""
        return self.note_of((kind,))

    def note_of(self, kinds: tuple[str, ...]) -> dict[str, Any]:
        """The next words of one of these kinds."""
        end = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end, f"no {kinds} came; these did: {self.notes}"
            for place, note in enumerate(self.notes):
                said = note["say"]
                assert said in (*kinds, *ORDINARY) or set(kinds) & {*BESIDE}, f"instead of {kinds}: {note}"
                if said in kinds:
                    del self.notes[: place + 1]
                    return note
            message = self.socket.receive()
            if message.get("bytes") is not None:
                self.ask("shown", picture=unpack(message["bytes"])[0]["picture"])
            else:
                self._keep(message)

    def _keep(self, message: dict[str, Any]) -> None:
        assert message["type"] == "websocket.send", f"the server closed: {message}"
        self.notes.append(json.loads(message["text"]))
        self.key = self.notes[-1].get("session", self.key)


def held(studio: Studio) -> int:
    """Bytes that caches hold of the arena just now."""
    arena: Arena = studio.shelf.arena
    return studio.worker.call(lambda: arena.held).result(PATIENCE)
