"""A world over the live socket: frames, keys, words, forks, and pages that are free when it ends."""

import io
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image
from starlette.testclient import TestClient

from apps.studio.studio import Studio
from tests.apps.studio.fakes import PATIENCE, Page, held, until

PROMPT = "a hero walks"
Served = tuple[TestClient, Studio]


def test_frames_come_one_at_a_time_and_the_next_only_after_an_answer(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT, seed=3)
        head, [jpeg] = page.picture(answer=False)
        assert jpeg[:2] == b"\xff\xd8"
        [player] = studio.players.values()
        until(lambda: player.screen.dropped > 2)  # the world goes on, the page did not answer
        page.ask("shown", picture=head["picture"])
        later, _ = page.picture()
        assert page.note("readout")["kernel"] in ("sdpa", "segments")  # the one that 'auto' chose here
        assert later["picture"] == head["picture"] + 1
        assert later["frame"] > head["frame"] + 2
        assert player.screen.waiting <= 3
    until(lambda: held(studio) == 0)


def test_the_same_seed_gives_the_same_frames_in_two_browsers_that_share_one_model(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as one, client.websocket_connect("/live/video") as two:
        pages = Page(one), Page(two)
        for page in pages:
            page.ask("start", prompt=PROMPT, seed=5)
            assert page.note("started")["seed"] == 5
        first, second = ({}, {})
        for _ in range(4):
            for page, seen in zip(pages, (first, second), strict=True):
                head, [jpeg] = page.picture()
                seen[head["frame"]] = jpeg
        shared = first.keys() & second.keys()
        assert 0 in shared
        assert all(first[frame] == second[frame] for frame in shared)
        assert studio.shelf.slots["world"].pipeline is studio.shelf.slots["video"].pipeline
        pages[0].ask("stop")
        pages[0].note("stopped")
        assert pages[1].picture()[0]["frame"] > 0  # the other one goes on
    until(lambda: held(studio) == 0)


def test_keys_count_while_they_are_held_and_come_back_with_the_frames_made_under_them(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        assert set(page.note("model")["keys"]) >= {"KeyW", "ArrowUp"}
        page.ask("start", prompt=PROMPT)
        page.note("started")
        page.ask("down", key="KeyW")
        heads = [page.picture()[0]]
        while "KeyW" not in heads[-1]["applied"]:
            page.ask("alive")
            heads.append(page.picture()[0])
        while page.note("readout")["input_ms"] is None:
            pass
        page.ask("up", key="KeyW")
        while heads[-1]["applied"]:
            heads.append(page.picture()[0])
        page.ask("down", key="Nonsense")
        assert "There is no key 'Nonsense'" in page.note("refused")["why"]


def test_keys_are_let_go_when_the_page_falls_silent(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT)
        page.ask("down", key="KeyD")
        while page.picture()[0]["applied"] != ["KeyD"]:
            pass
        while page.picture()[0]["applied"]:  # nothing more is sent but answers
            pass


def test_a_prompt_has_a_receipt_and_a_wrong_one_changes_nothing(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT)
        page.picture()
        page.ask("prompt", text="a hero walks by night", mode="window")
        receipt = page.note("receipt")
        assert (receipt["mode"], receipt["prompt"]) == ("window", "a hero walks by night")
        while page.picture()[0]["chunk"] < receipt["chunk"]:
            pass
        page.ask("prompt", text="snow " * 50)
        assert "say it in fewer words" in page.note("refused")["why"]
        page.ask("prompt", text="snow", mode="sideways")
        assert "There is no mode 'sideways'" in page.note("refused")["why"]
        [player] = studio.players.values()
        prompt = studio.worker.call(lambda: player.branches.first.moment.prompt).result(PATIENCE)
        assert prompt == "a hero walks by night"
        page.ask("prompt", text="a dragon")
        assert "dragon" in page.note("warning")["why"]


def test_a_fork_runs_beside_its_parent_on_one_clock_until_one_is_kept(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT)
        page.picture()
        page.ask("fork")
        page.note("forked")
        page.ask("prompt", text="sand by night", mode="cut", branch=1)
        assert page.note("receipt")["branch"] == 1
        pictures = [page.picture() for _ in range(4)]
        left, right = pictures[-1][1]
        assert left != right
        page.ask("fork")
        assert "keep one of them first" in page.note("refused")["why"]
        page.ask("keep", branch=1)
        assert page.note("kept")["prompt"] == "sand by night"
        while len(page.picture()[1]) > 1:
            pass
        memory = client.get("/memory").json()
        assert len(memory["sessions"][0]["pools"]) == 1
        assert memory["arena"]["held"] == held(studio)


def test_undo_shows_the_chunk_before_and_reset_the_beginning(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT, seed=1)
        frames = {}
        while 3 not in frames:
            head, [jpeg] = page.picture()
            frames[head["frame"]] = jpeg
        page.ask("pause")
        page.ask("undo")
        undone = page.note("undone")
        head, [jpeg] = page.picture()
        assert head["chunk"] == undone["chunk"] - 1
        page.ask("reset")
        page.note("was reset")
        page.ask("resume")
        head, [again] = page.picture()
        while head["frame"] not in frames:
            head, [again] = page.picture()
        assert again == frames[head["frame"]]


def test_a_recording_is_there_with_its_log_until_the_session_ends(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT, seed=2)
        page.ask("record")
        page.note("recording")
        page.picture()
        page.picture()
        page.ask("record")
        note = page.note("recorded")
        assert note["frames"] >= 2
        video, log = (f"/recordings/{note['session']}/{name}" for name in note["files"])
        assert b"ftyp" in client.get(video).content[:16]
        assert client.get(log).json()["seed"] == 2
        assert client.get(f"/recordings/{note['session']}/..%2F..%2Fetc%2Fpasswd").status_code == 404
    until(lambda: not list(studio.folder.iterdir()))
    assert client.get(video).status_code == 404


def test_a_world_begins_from_a_picture_that_the_page_brings(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        key = page.note("model")["session"]
        buffer = io.BytesIO()
        Image.new("RGB", (90, 40), (200, 40, 40)).save(buffer, format="JPEG")
        name = client.post(f"/upload/{key}", content=buffer.getvalue()).json()["name"]
        page.ask("start", prompt=PROMPT, seed=1, upload=name)
        page.note("started")
        assert page.picture()[0]["chunk"] == -1  # the picture itself, as the model sees it
        for wrong, said in (
            ({"upload": "../../etc/passwd"}, "no upload"),
            ({"opening": "x", "upload": name}, "from one"),
        ):
            page.ask("start", prompt=PROMPT, **wrong)
            assert said in page.note("refused")["why"]
        bad = client.post(f"/upload/{key}", content=b"no picture").json()["name"]
        page.ask("start", prompt=PROMPT, upload=bad)
        assert "10 bytes came that are no JPEG" in page.note("refused")["why"]
        assert page.picture()[0]["chunk"] >= 0  # the world that ran goes on
    until(lambda: held(studio) == 0)
    assert not list(studio.folder.iterdir())


def test_closing_the_socket_frees_every_page_within_two_seconds(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT)
        page.ask("fork")
        page.picture()
        page.picture()
        assert held(studio) > 0
    until(lambda: held(studio) == 0, seconds=2)
    assert not studio.players


def test_a_viewer_who_went_away_is_not_computed_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client, studio = served
    monkeypatch.setattr("apps.studio.player.AWAY", 0.3)
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt=PROMPT)
        page.picture(answer=False)
        [player] = studio.players.values()
        until(lambda: player.due(player._clock()) is None)
        page.ask("shown", picture=1)
        page.picture()


def test_without_a_socket_an_image_streams_and_orders_come_by_post(served: Served) -> None:
    client, studio = served
    key = "a-key-of-my-own-0123"
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(client.get, f"/watch/world.mjpeg?key={key}")
        player = until(lambda: studio.players.get(key))
        asked = client.post(f"/say/{key}", content=json.dumps({"do": "start", "prompt": PROMPT}))
        assert asked.status_code == 200
        until(lambda: any(note["say"] == "started" for note in client.get(f"/notes/{key}").json()))
        refused = client.post(f"/say/{key}", content="{}")
        assert (refused.status_code, refused.json()["say"]) == (400, "refused")
        until(lambda: player.screen.shown > 2)
        studio.leave(player).result(PATIENCE)
        answer = watching.result(PATIENCE)
    assert answer.content.count(b"Content-Type: image/jpeg") > 2
    assert client.get(f"/notes/{key}").status_code == 404
    assert held(studio) == 0
