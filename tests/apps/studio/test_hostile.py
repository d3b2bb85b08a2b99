"""Whatever comes, each refusal is a sentence and the server goes on."""

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from apps.studio.player import Player
from apps.studio.settings import StudioSettings
from apps.studio.studio import Studio
from apps.studio.wire import LONGEST, read
from streamgen.errors import UsageError
from tests.apps.studio.fakes import Page, held, serving, until

TOKEN = "a-secret-of-mine"
WRONG = {
    "": "is not JSON",
    "[" * 60_000: "is not JSON",
    "null": "'do' is one of",
    '{"do": "shutdown"}': "'do' is one of",
    '{"do": ["undo"]}': "'do' is one of",
    '{"do": "down"}': "needs 'key'",
    '{"do": "down", "key": 7}': "is text, not '7'",
    '{"do": "start", "prompt": "a", "seed": true}': "is a whole number",
    '{"do": "write", "way": "prompt"}': "needs 'question'",
    '{"do": "write", "question": "a", "samples": "2"}': "is a whole number",
    '{"do": "read"}': "needs 'document'",
    '{"do": "edit", "mask": [1]}': "is text",
    '{"do": "edit", "picture": 0}': "needs 'mask'",
    '{"do": "start", "prompt": "a", "upload": 3}': "is text, not '3'",
    '{"do": "undo", "chunks": 3}': "knows no 'chunks'",
    "x" * (LONGEST + 1): "at most",
}


@pytest.fixture(scope="module")
def small(world_folder: Path) -> Iterator[tuple[TestClient, Studio]]:
    """A studio for two sessions and small uploads."""
    settings = StudioSettings(sessions=2, upload=1000)
    with serving({"world": world_folder}, settings) as both:
        yield both


@pytest.mark.parametrize("message", WRONG, ids=lambda message: message[:24] or "nothing")
def test_a_message_that_is_not_understood_is_refused_with_a_sentence(message: str) -> None:
    with pytest.raises(UsageError, match=WRONG[message]):
        read(message)


def test_random_bytes_are_refused_and_the_session_lives(small: tuple[TestClient, Studio]) -> None:
    client, _ = small
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        for _ in range(5):
            socket.send_bytes(os.urandom(200))
            assert "reads JSON text" in page.note("refused")["why"]
        page.ask("shown", picture=99)
        assert "not under way" in page.note("refused")["why"]
        page.ask("undo")
        assert "start a world first" in page.note("refused")["why"]
        page.ask("image", labels=["3"])
        assert "A world does not know 'image'" in page.note("refused")["why"]
        page.ask("start", prompt="a hero walks")
        page.picture()


def test_who_only_sends_rubbish_is_cut_off_with_the_reason(small: tuple[TestClient, Studio]) -> None:
    client, studio = small
    with client.websocket_connect("/live/world") as socket:
        for _ in range(30):
            socket.send_text("rubbish")
        words = []
        with pytest.raises(WebSocketDisconnect) as end:
            while True:
                words.append(json.loads(socket.receive_text()))
    assert end.value.code == 1008
    assert words[-1]["end"]
    assert "20 messages were not understood" in words[-1]["why"]
    until(lambda: not studio.players)


def test_a_message_that_is_too_long_ends_the_session_with_a_sentence(
    small: tuple[TestClient, Studio],
) -> None:
    client, studio = small
    with client.websocket_connect("/live/world") as socket:
        socket.send_text("x" * (LONGEST + 1))
        words = []
        with pytest.raises(WebSocketDisconnect) as end:
            while True:
                words.append(json.loads(socket.receive_text()))
    assert end.value.code == 1009
    assert any("at most" in note.get("why", "") for note in words)
    until(lambda: not studio.players)


def test_sessions_beyond_the_limit_are_told_so_and_a_free_place_is_taken(
    small: tuple[TestClient, Studio],
) -> None:
    client, studio = small
    with client.websocket_connect("/live/world") as one, client.websocket_connect("/live/world"):
        for _ in range(50):
            with client.websocket_connect("/live/world") as beyond:
                refusal = json.loads(beyond.receive_text())
                assert "this studio takes 2; close a tab" in refusal["why"]
                with pytest.raises(WebSocketDisconnect) as end:
                    beyond.receive_text()
                assert end.value.code == 1013
        assert client.get("/watch/world.mjpeg").status_code == 400
        page = Page(one)
        page.ask("start", prompt="a hero walks")
        page.picture()
    until(lambda: not studio.players)
    with client.websocket_connect("/live/world") as again:
        assert Page(again).note("model")["state"] == "ready"


def test_two_hundred_connects_and_drops_leave_nothing(small: tuple[TestClient, Studio]) -> None:
    client, studio = small
    for number in range(200):
        until(lambda: len(studio.players) < 2)
        with client.websocket_connect("/live/world") as socket:
            if number % 20 == 0:
                Page(socket).ask("start", prompt="a hero walks")
    until(lambda: held(studio) == 0 and not studio.players)
    assert not list(studio.folder.iterdir())
    until(lambda: not gc.collect() and not any(isinstance(one, Player) for one in gc.get_objects()))


def test_an_unknown_tab_is_refused_by_name(small: tuple[TestClient, Studio]) -> None:
    client, _ = small
    with client.websocket_connect("/live/attic") as socket:
        assert "There is no tab 'attic'" in json.loads(socket.receive_text())["why"]


@pytest.mark.parametrize(
    "path",
    [
        "/studio/../settings.py",
        "/studio/%2e%2e/settings.py",
        "/studio/..%2f..%2fpyproject.toml",
        "/recordings/x/%2fetc%2fpasswd",
        "/openings/world/..%2f..%2fstreamgen.json.png",
        "/plan?model=%2Fetc%2Fpasswd",
        "/plan?model=..%2F..%2Fpyproject.toml",
    ],
)
def test_no_file_outside_can_be_read(small: tuple[TestClient, Studio], path: str) -> None:
    client, _ = small
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert b"root:" not in answer.content and b"[project]" not in answer.content


def test_an_upload_that_is_too_large_is_refused(small: tuple[TestClient, Studio]) -> None:
    client, studio = small
    with client.websocket_connect("/live/world"):
        [key] = studio.players
        announced = client.post(f"/say/{key}", content=b"x" * 2000)
        unannounced = client.post(f"/say/{key}", content=(b"x" * 600 for _ in range(3)))
        brought = client.post(f"/upload/{key}", content=(b"x" * 600 for _ in range(3)))
        assert not list(studio.folder.glob("*/*"))
    for answer in (announced, unannounced, brought):
        assert (answer.status_code, "1000 bytes" in answer.text) == (413, True)


def test_a_page_of_another_site_may_not_open_a_socket_or_post(small: tuple[TestClient, Studio]) -> None:
    client, _ = small
    foreign = {"origin": "http://elsewhere.example"}
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/live/world", headers=foreign):
        pass
    assert client.post("/say/x", content="{}", headers=foreign).status_code == 403
    with client.websocket_connect("/live/world", headers={"origin": "http://testserver"}) as own:
        Page(own).note("model")


def test_a_token_is_asked_of_everything_and_remembered_by_the_browser(world_folder: Path) -> None:
    with serving({"world": world_folder}, StudioSettings(token=TOKEN)) as (client, _):
        assert client.get("/loading").status_code == 401
        assert client.get("/loading?token=wrong-wrong").status_code == 401
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/live/world"):
            pass
        assert client.get("/loading", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        client.cookies.clear()
        assert client.get(f"/loading?token={TOKEN}").status_code == 200
        assert client.get("/studio/studio.js").status_code == 200  # by the cookie
        with client.websocket_connect("/live/world") as socket:
            Page(socket).note("model")


def test_a_budget_that_is_spent_is_said_in_words_and_the_others_play_on(world_folder: Path) -> None:
    with serving({"world": world_folder}, memory="1KiB") as (client, studio):
        with client.websocket_connect("/live/world") as socket:
            page = Page(socket)
            page.ask("start", prompt="a hero walks")
            assert "world memory asked for" in page.note("refused")["why"]
        assert held(studio) == 0


def test_a_model_that_is_not_there_says_so_on_its_tab(world_folder: Path) -> None:
    with serving({"world": world_folder, "video": Path("no-such-model")}) as (client, _):
        states = {model["tab"]: model for model in client.get("/loading").json()["models"]}
        assert states["world"]["state"] == "ready"
        assert "'no-such-model' is neither a folder nor a known checkpoint" in states["video"]["trouble"]
        with client.websocket_connect("/live/video") as socket:
            page = Page(socket)
            page.ask("start", prompt="a hero walks")
            assert "no-such-model" in page.note("refused")["why"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"port": 70000}, "no port 70000"), ({"sessions": 0}, "serve nobody"), ({"token": "x"}, "at least 8")],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        StudioSettings(**wrong)  # type: ignore[arg-type]
