"""Pictures scale by scale over the live socket, on a tiny random model."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from apps.studio.shelf import Shelf, Slot
from apps.studio.studio import Studio
from streamgen.kv import Arena
from tests.apps.studio.fakes import Page, held, serving, until
from tests.pipelines import image_models


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[TestClient, Studio]]:
    shelf = Shelf({})
    shelf.arena = Arena()
    pipeline = image_models.make_pipeline(memory=shelf.arena)
    shelf.slots["image"] = Slot("image", "tiny", "ready", pipeline=pipeline)
    with serving({}, shelf=shelf) as both:
        yield both


def test_a_batch_grows_scale_by_scale_and_gives_its_pages_back(served: tuple[TestClient, Studio]) -> None:
    client, studio = served
    with client.websocket_connect("/live/image") as socket:
        page = Page(socket)
        classes = page.note("model")["classes"]
        page.ask("image", labels=[classes[0], None], seed=4)
        heads = []
        while not heads or not heads[-1]["last"]:
            head, jpegs = page.picture()
            assert len(jpegs) == 2
            heads.append(head)
        assert [head["scale"] for head in heads] == list(range(len(heads[0]["patches"])))
        assert heads[-1]["seeds"] == [4, 5]
        assert heads[-1]["labels"] == ["zero", "no class"]
        until(lambda: held(studio) == 0)


def test_the_next_scale_waits_for_the_page_and_closing_ends_it(served: tuple[TestClient, Studio]) -> None:
    client, studio = served
    with client.websocket_connect("/live/image") as socket:
        page = Page(socket)
        page.ask("image", labels=[None])
        page.picture(answer=False)
        [player] = studio.players.values()
        until(lambda: player.screen.waiting == 1)
        assert player.wants(0.0) is None
        assert held(studio) > 0
    until(lambda: held(studio) == 0, seconds=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"labels": ["dragon fruit"]}, "no class 'dragon fruit'"),
        ({"labels": [None] * 17}, "at most 16"),
        ({"labels": []}, "No label was given"),
        ({"labels": [None], "seed": -1}, "is no seed"),
        ({"labels": [{"a": 1}]}, "is no label"),
    ],
)
def test_a_wrong_wish_is_refused_with_a_sentence(
    served: tuple[TestClient, Studio], words: dict[str, object], said: str
) -> None:
    client, _ = served
    with client.websocket_connect("/live/image") as socket:
        page = Page(socket)
        page.ask("image", **words)
        assert said in page.note("refused")["why"]
