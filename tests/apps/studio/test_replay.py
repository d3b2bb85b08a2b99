"""Recordings played again over the live socket: the same bits, any place of them, and strangers' logs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from apps.studio.studio import Studio
from tests.apps.studio.fakes import PATIENCE, Page, held, serving, until

Served = tuple[TestClient, Studio]
Recorded = dict[str, bytes]
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def served(world_folder: Path) -> Iterator[Served]:
    with serving({"world": world_folder, "video": world_folder}) as both:
        yield both


@pytest.fixture(scope="module")
def recorded(served: Served) -> Recorded:
    """A world under a key and a new prompt, with a chunk undone, as the Record button leaves it."""
    client, _ = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt="a hero walks", seed=4)
        page.picture()
        page.ask("record")
        page.note("recording")
        page.ask("down", key="KeyD")
        while page.picture()[0]["applied"] != ["KeyD"]:
            page.ask("alive")
        page.ask("up", key="KeyD")
        page.ask("prompt", text="sand by night", mode="window")
        receipt = page.note("receipt")
        while page.picture()[0]["chunk"] < receipt["chunk"] + 2:
            pass
        page.ask("undo")
        page.note("undone")
        page.picture()
        page.ask("record")
        note = page.note("recorded")
        files = (client.get(f"/recordings/{note['session']}/{name}") for name in note["files"])
        return dict(zip(("mp4", "log"), (file.content for file in files), strict=True))


def opened(client: TestClient, page: Page, data: bytes) -> None:
    """Bring a file and open it."""
    if not page.key:
        page.note("model")
    name = client.post(f"/upload/{page.key}", content=data).json()["name"]
    page.ask("open", name=name)


@pytest.mark.parametrize("form", ["mp4", "log"])
def test_a_recording_is_made_again_bit_for_bit_from_its_log_or_its_mp4(
    served: Served, recorded: Recorded, form: str
) -> None:
    client, studio = served
    log = json.loads(recorded["log"])
    assert len(log["seen"]) >= 3
    with client.websocket_connect("/live/replay") as socket:
        page = Page(socket)
        opened(client, page, recorded[form])
        note = page.note("opened")
        assert (note["prompt"], note["seed"], note["why"]) == ("a hero walks", 4, "")
        assert {"chunk": note["timeline"][0]["chunk"], "keys": []} == {
            name: note["timeline"][0][name] for name in ("chunk", "keys")
        }
        assert any(entry.get("keys") == ["KeyD"] for entry in note["timeline"])
        assert any(entry.get("prompt") == "sand by night" for entry in note["timeline"])
        page.ask("speed", rate=16)
        ended = page.note("ended")
        assert ended["chunk"] == note["chunks"]
        assert ended["compared"] == ended["equal"] == len(log["seen"])
        assert held(studio) > 0
    until(lambda: held(studio) == 0, seconds=2)
    until(lambda: not list(studio.folder.iterdir()))


def test_a_recording_that_came_out_differently_says_so(served: Served, recorded: Recorded) -> None:
    client, _ = served
    log = json.loads(recorded["log"])
    first = next(iter(log["seen"]))
    log["seen"][first] = "0" * 16
    with client.websocket_connect("/live/replay") as socket:
        page = Page(socket)
        opened(client, page, json.dumps(log).encode())
        page.ask("speed", rate=16)
        ended = page.note("ended")
        assert ended["equal"] == ended["compared"] - 1


def test_any_place_can_be_gone_to_and_shows_the_same_picture_as_before(
    served: Served, recorded: Recorded
) -> None:
    client, studio = served
    with client.websocket_connect("/live/replay") as socket:
        page = Page(socket)
        opened(client, page, recorded["log"])
        last = page.note("opened")["chunks"] - 1
        page.ask("pause")
        shown = {}
        for chunk in (last, 1, last, 1):
            page.ask("seek", chunk=chunk)
            head, [jpeg] = page.picture()
            while head["chunk"] != chunk:
                head, [jpeg] = page.picture()
            assert shown.setdefault(chunk, jpeg) == jpeg
        assert shown[1] != shown[last]
        [player] = studio.players.values()
        assert player.wants(player._clock()) is None  # it is paused
        page.ask("resume")
        while page.picture()[0]["chunk"] <= 1:
            pass
        page.ask("seek", chunk=last + 1)
        assert f"There is no chunk {last + 1}" in page.note("refused")["why"]


def test_a_recording_of_this_browser_opens_by_the_key_of_its_session(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/video") as one, client.websocket_connect("/live/replay") as two:
        world, page = Page(one), Page(two)
        world.ask("start", prompt="a hero walks", seed=2)
        world.ask("record")
        world.note("recording")
        world.picture()
        world.ask("record")
        note = world.note("recorded")
        page.ask("open", name=note["files"][0], session=note["session"])
        assert page.note("opened")["seed"] == 2
        for words in ({"name": "x", "session": note["session"]}, {"name": note["files"][0], "session": "x"}):
            page.ask("open", **words)
            assert "There is no such" in page.note("refused")["why"]


def _set(name: str, value: Any) -> Change:
    return lambda log: log.update({name: value})


STRANGE: dict[str, tuple[Change, str]] = {
    "of another model": (_set("model", "/etc"), "was made with /etc, and this studio plays"),
    "huge": (_set("size", [10**5, 10**5]), "this studio plays up to"),
    "of a long memory": (_set("window", 10**9), "this studio takes up to"),
    "of many steps": (_set("steps", [1.0] * 999), "takes 999 steps"),
    "endless": (_set("events", [{"actions": [], "chunks": 10**15}]), "lasts 1000000000000000 chunks"),
    "empty": (_set("events", []), "lasts 0 chunks"),
    "of an unknown key": (_set("events", [{"actions": ["KeyQ"], "chunks": 1}]), "does not obey KeyQ"),
    "with a broken picture": (_set("image", "AAAA"), "start picture in this control log is damaged"),
    "of another kind": (_set("format", "attic"), "no control log"),
    "damaged": (_set("size", 7), "is damaged"),
    "without a window": (lambda log: log.pop("window"), "is damaged"),
}


def test_a_strangers_log_is_refused_with_a_sentence_before_anything_is_computed(
    served: Served, recorded: Recorded
) -> None:
    client, studio = served
    with client.websocket_connect("/live/replay") as socket:
        page = Page(socket)
        page.ask("pause")
        assert "No recording is open" in page.note("refused")["why"]
        for change, said in STRANGE.values():
            log = json.loads(recorded["log"])
            change(log)
            opened(client, page, json.dumps(log).encode())
            assert said in page.note("refused")["why"]
        for data, said in (
            (b"rubbish", "neither a control log nor an mp4"),
            (b"[1]", "No control log is in"),
        ):
            opened(client, page, data)
            assert said in page.note("refused")["why"]
        assert held(studio) == 0
        assert studio.worker.call(lambda: 7).result(PATIENCE) == 7
