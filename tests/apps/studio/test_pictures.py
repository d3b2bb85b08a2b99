"""Pictures scale by scale over the live socket, on a tiny random model."""

import base64
import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from apps.studio.shelf import Shelf, Slot
from apps.studio.studio import Studio
from apps.studio.wire import jpeg
from streamgen.kv import Arena
from tests.apps.studio.fakes import Page, held, serving, until
from tests.pipelines import image_models


def drawing(side: int = 16, painted: int = 8) -> str:
    """A mask as a canvas tells it: the left columns are to be painted anew."""
    mask = np.zeros((side, side), np.uint8)
    mask[:, :painted] = 255
    return "data:image/png;base64," + base64.b64encode(png(mask)).decode()


def png(picture: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG")
    return buffer.getvalue()


def finished(page: Page) -> list[bytes]:
    """The pictures after the last scale."""
    while True:
        head, jpegs = page.picture()
        if head["last"]:
            return jpegs


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


def test_a_picture_of_the_grid_is_painted_anew_where_the_mask_is_drawn(
    served: tuple[TestClient, Studio],
) -> None:
    client, studio = served
    with client.websocket_connect("/live/image") as socket:
        page = Page(socket)
        page.ask("image", labels=["one", "two"], seed=1)
        finished(page)
        page.ask("edit", picture=1, mask=drawing(), label="zero", variants=3, seed=5)
        variants = finished(page)
        pipeline = studio.shelf.slots["image"].pipeline
        *_, made = pipeline.stream(["one", "two"], seeds=1)
        mask = np.zeros((16, 16), bool)
        mask[:, :8] = True
        *_, wanted = pipeline.edit(made.images[1], mask, "zero", seeds=[5, 6, 7])
        assert variants == [jpeg(image) for image in wanted.images]
        page.ask("edit", picture=3, mask=drawing())
        assert "no picture 3 to edit; 3 are finished" in page.note("refused")["why"]
    until(lambda: held(studio) == 0)


def test_a_picture_that_the_page_brings_is_edited_whatever_its_size(
    served: tuple[TestClient, Studio],
) -> None:
    client, _ = served
    with client.websocket_connect("/live/image") as socket:
        page = Page(socket)
        key = page.note("model")["session"]
        brought = client.post(f"/upload/{key}", content=png(np.full((40, 60, 3), 90, np.uint8)))
        page.ask("edit", upload=brought.json()["name"], mask=drawing(), seed=1)
        assert len(finished(page)) == 1


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ("x", "begins with 'data:image/png"),
        ("data:image/png;base64,&&&", "not base64"),
        ("data:image/png;base64,AAAA", "no JPEG, PNG, WEBP picture"),
        (drawing(8, 4), "The mask is 8x8"),
        (drawing(16, 0), "paints nothing"),
        (drawing(5000, 1), "larger than this studio looks at"),
    ],
)
def test_a_drawing_that_is_none_is_refused_with_a_sentence(
    served: tuple[TestClient, Studio], mask: str, said: str
) -> None:
    client, _ = served
    with client.websocket_connect("/live/image") as socket:
        page = Page(socket)
        key = page.note("model")["session"]
        name = client.post(f"/upload/{key}", content=png(np.zeros((16, 16, 3), np.uint8))).json()["name"]
        page.ask("edit", upload=name, mask=mask)
        assert said in page.note("refused")["why"]
