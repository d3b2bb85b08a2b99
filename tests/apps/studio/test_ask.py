"""Questions over the live socket: about an upload, a camera and a running world, on tiny random models.

Shapes: T frames, H height, W width.
"""

import io
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from apps.studio.studio import Studio
from streamgen.frames import FORMATS, Clip, open_writer
from tests.apps.studio.fakes import PATIENCE, Page, held, serving, until
from tests.pipelines import videoqa_models

Served = tuple[TestClient, Studio]
SIZE = (24, 32)  # height, width


@pytest.fixture(scope="module")
def served(world_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = videoqa_models.checkpoint(tmp_path_factory.mktemp("ask") / "vlm")
    with serving({"world": world_folder, "ask": folder}) as both:
        yield both


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Six seconds of noise at 4 frames a second, as an mp4."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    noise = np.random.default_rng(0).integers(0, 255, (24, *SIZE, 3), dtype=np.uint8)
    with open_writer(path, FORMATS["mp4"], Clip(SIZE[1], SIZE[0], Fraction(4))) as writer:
        writer.write(noise)
    return path.read_bytes()


def uploaded(client: TestClient, page: Page, data: bytes) -> str:
    """The name that the server gave to a file."""
    if not page.key:
        page.note("model")
    answer = client.post(f"/upload/{page.key}", content=data)
    assert answer.status_code == 200, answer.text
    name: str = answer.json()["name"]
    return name


def answered(page: Page, question: str, **words: Any) -> dict[str, Any]:
    """What came of a question, with its pieces put together."""
    page.ask("ask", question=question, **words)
    number = page.note("asked")["number"]
    text = ""
    while True:
        note = page.note_of(("piece", "answered"))
        assert note["number"] == number
        if note["say"] == "answered":
            return note | {"text": text}
        text += note["text"]


def test_an_upload_is_watched_and_questions_are_answered_at_their_times(served: Served, clip: bytes) -> None:
    client, studio = served
    with client.websocket_connect("/live/ask") as socket:
        page = Page(socket)
        name = uploaded(client, page, clip)
        page.ask("watch", source="upload", name=name, pace="fast", memory="window", budget=64)
        started = page.note("watching")
        assert (started["memory"], started["budget"]) == ("window", 64)
        page.ask("ask", question="where is the hero now ?", at=2.0)
        page.ask("ask", question="and at the end ?", at=60)
        page.note("asked")
        page.note("asked")
        late = page.note_of(("answered",))
        assert (late["number"], late["seen"]) == (1, 2.0)
        ended = page.note("ended")
        assert (ended["time"], ended["why"]) == (5.5, "")
        assert "The video ended at 0:05.5, before 1:00" in page.note("refused")["why"]
        now = answered(page, "which biome came first ?")
        assert now["seen"] == 5.5 and now["first_ms"] > 0
        memory = client.get("/memory").json()
        assert memory["arena"]["held"] == held(studio) > 0
        assert [pool["owner"] for pool in memory["sessions"][0]["pools"]] == ["stream"]
    until(lambda: held(studio) == 0, seconds=2)
    until(lambda: not list(studio.folder.iterdir()))


def test_the_same_video_gives_the_answers_of_the_pipeline_itself(
    served: Served, clip: bytes, tmp_path: Path
) -> None:
    client, studio = served
    path = tmp_path / "clip.mp4"
    path.write_bytes(clip)
    with client.websocket_connect("/live/ask") as socket:
        page = Page(socket)
        page.ask("watch", source="upload", name=uploaded(client, page, clip), pace="fast")
        page.note("ended")
        said = answered(page, "what is there ?")["text"]
    pipeline = studio.shelf.slots["ask"].pipeline

    def alone() -> str:
        with pipeline.open() as session:
            list(session.watch(path))
            return "".join(session.ask("what is there ?"))

    assert said == studio.worker.call(alone).result(PATIENCE) != ""


def test_a_world_is_watched_while_it_is_played_and_only_by_who_knows_its_key(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/world") as one, client.websocket_connect("/live/ask") as two:
        world, ask = Page(one), Page(two)
        key = world.note("model")["session"]
        ask.ask("watch", source="world", name=key)
        assert "No world runs" in ask.note("refused")["why"]
        world.ask("start", prompt="a hero walks")
        world.note("started")
        ask.ask("watch", source="world", name="somebody-elses")
        assert "no such session" in ask.note("refused")["why"]
        ask.ask("watch", source="world", name=key)
        ask.note("watching")
        head: dict[str, Any] = {"time": 0}
        while head["time"] < 1:
            world.picture()
            head, _ = ask.picture()
        assert answered(ask, "where is the hero now ?")["seen"] >= 1
        while head["time"] < 2:  # both go on
            world.picture()
            head, _ = ask.picture()
        world.ask("stop")
        assert "has ended" in ask.note("ended")["why"]
        answered(ask, "and where was it ?")
    until(lambda: held(studio) == 0, seconds=2)


def test_a_camera_is_watched_picture_by_picture(served: Served) -> None:
    client, studio = served
    buffer = io.BytesIO()
    Image.effect_noise(SIZE[::-1], 80).convert("RGB").save(buffer, "JPEG")
    with client.websocket_connect("/live/ask") as socket:
        page = Page(socket)
        key = page.note("model")["session"]
        refused = client.post(f"/camera/{key}?at=0", content=buffer.getvalue())
        assert (refused.status_code, "watches no camera" in refused.text) == (400, True)
        page.ask("watch", source="camera")
        page.note("watching")
        for number in range(40):  # faster than it is looked at: nothing piles up
            assert client.post(f"/camera/{key}?at={number / 8}", content=buffer.getvalue()).status_code == 200
        [player] = studio.players.values()
        until(lambda: player.session.counts.frames >= 1 and player.sights.peek() is None)
        assert player.session.counts.frames + player.sights.dropped == 10  # two of eight a second
        answered(page, "who is there ?")
        for wrong in (b"", b"#EXTM3U", buffer.getvalue()[:99]):
            refused = client.post(f"/camera/{key}?at=99", content=wrong)
            assert (refused.status_code, "no JPEG, PNG, WEBP picture" in refused.text) == (400, True)


def test_uploads_are_opened_as_what_they_begin_like_and_playlists_are_refused(
    served: Served, clip: bytes, tmp_path: Path
) -> None:
    client, studio = served
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(clip)
    with client.websocket_connect("/live/ask") as socket:
        page = Page(socket)
        for text, said in (
            (f"#EXTM3U\n#EXTINF:6,\n{secret}\n#EXT-X-ENDLIST\n", "is none of mp4, mov"),
            (f"ffconcat version 1.0\nfile {secret}\n", "is none of mp4, mov"),
        ):
            name = uploaded(client, page, text.encode())
            page.ask("watch", source="upload", name=name, pace="fast")
            assert said in page.note("refused")["why"]
        for name in (str(secret), "../../secret.mp4", ""):
            page.ask("watch", source="upload", name=name)
            assert "no upload" in page.note("refused")["why"]
        name = uploaded(client, page, b"\x00\x00\x00\x20ftyp" + b"<MPD>#EXTM3U" * 99)
        page.ask("watch", source="upload", name=name, pace="fast")
        assert str(studio.folder) not in page.note("ended")["why"]
        page.ask("ask", question="what is there ?")
        page.note("asked")
        assert "Nothing was seen" in page.note("refused")["why"]
        [player] = studio.players.values()
        assert [path.name for path in player.folder.iterdir()] == [name]  # the newest upload only


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"source": "camera", "memory": "attic"}, "no memory 'attic'"),
        ({"source": "camera", "budget": 10**9}, "does not fit"),
        ({"source": "telescope"}, "no source 'telescope'"),
    ],
)
def test_a_wrong_wish_is_refused_and_what_runs_goes_on(
    served: Served, words: dict[str, object], said: str
) -> None:
    client, studio = served
    with client.websocket_connect("/live/ask") as socket:
        page = Page(socket)
        page.ask("ask", question="what ?")
        assert "Nothing was watched yet" in page.note("refused")["why"]
        page.ask("watch", source="camera")
        page.note("watching")
        page.ask("watch", **words)
        assert said in page.note("refused")["why"]
        assert held(studio) > 0


def test_a_memory_that_forgets_nothing_ends_with_a_sentence_and_can_be_asked(
    served: Served, clip: bytes
) -> None:
    client, _ = served
    with client.websocket_connect("/live/ask") as socket:
        page = Page(socket)
        name = uploaded(client, page, clip)
        page.ask("watch", source="upload", name=name, pace="fast", memory="full", budget=100)
        assert "The full memory holds" in page.note("ended")["why"]
        answered(page, "what is there ?")
