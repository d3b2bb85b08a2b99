"""Half a minute of the bundled world at its own speed: memory, files, threads and queues stay as they are."""

import gc
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from apps.studio.studio import Studio
from tests.apps.studio.fakes import PATIENCE, Page, held, serving, until

WORLD = Path(__file__).resolve().parents[3] / "weights" / "tiny-world"
HALF_MINUTE, WARM = 30.0, 8.0  # seconds that are measured, and seconds before that fill the window
GROWTH = 512 * 1024  # bytes of objects; the frames of half a minute, if somebody kept them, are 2.9 MB
RESIDENT = 32 * 2**20  # bytes of the process, which its allocators round up
pytestmark = [
    pytest.mark.skipif(not WORLD.is_dir(), reason="tiny-world is not bundled"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc"),
]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[TestClient, Studio]]:
    with serving({"world": WORLD}) as both:
        yield both


def measured(studio: Studio) -> dict[str, int]:
    """What must not grow."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "resident": resident,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "pages": held(studio),
        "written": sum(path.is_file() for path in studio.folder.rglob("*")),
    }


def test_half_a_minute_of_a_world_leaves_memory_files_and_queues_as_they_were(
    served: tuple[TestClient, Studio],
) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt="a hero in a red coat walks through snow", seed=1)
        [player] = studio.players.values()
        heads, waiting, notes = [], [], []

        def play(seconds: float) -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                page.ask("down", key=("KeyD", "KeyS")[len(heads) // 40 % 2])
                heads.append(page.picture()[0]["frame"])
                page.notes.clear()
                waiting.append(player.screen.waiting)
                notes.append(len(player.outbox._notes))

        tracemalloc.start()
        try:
            play(WARM)
            before, bytes_before = measured(studio), tracemalloc.get_traced_memory()[0]
            shown = len(heads)
            play(HALF_MINUTE)
            grown = tracemalloc.get_traced_memory()[0] - bytes_before
            after = measured(studio)
        finally:
            tracemalloc.stop()
        assert heads == sorted(heads) and len(heads) - shown > 10  # it went on, also on a busy machine
        assert after["pages"] == before["pages"] > 0
        assert after["files"] <= before["files"]
        assert after["threads"] <= before["threads"] + 1  # a pool of the server may start one more
        assert after["written"] == before["written"] == 0
        assert max(waiting) <= 3 and max(notes) <= 2
        assert grown < GROWTH, f"{grown} bytes more: somebody keeps frames"
        assert after["resident"] - before["resident"] < RESIDENT
    until(lambda: held(studio) == 0, seconds=2)
    assert studio.worker.call(lambda: studio.players).result(PATIENCE) == {}
