"""The numbers of a studio: who holds which pages, and what a model would hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from apps.studio.studio import Studio
from tests.apps.studio.fakes import Page, held, serving, until

Served = tuple[TestClient, Studio]


@pytest.fixture(scope="module")
def named(world_folder: Path) -> Iterator[Served]:
    with serving({"world": world_folder}) as both:
        yield both


def test_a_plan_of_the_studios_own_model_is_what_its_session_then_takes(named: Served) -> None:
    client, studio = named
    name = studio.shelf.slots["world"].name
    assert name in client.get("/plan/models").json()
    plan = client.get("/plan", params={"model": name, "memory": "1GiB", "sequences": 3}).json()
    assert plan["fits"] and plan["most_sequences"] > 3
    one = client.get("/plan", params={"model": name}).json()
    with client.websocket_connect("/live/world") as socket:
        page = Page(socket)
        page.ask("start", prompt="a hero walks")
        page.picture()
        assert held(studio) == one["cache"]["bytes"]
        [session] = client.get("/memory").json()["sessions"]
        assert (session["tab"], session["model"]) == ("world", name)
        [pool] = session["pools"]
        assert 0 < pool["fill"] <= 1 and len(pool["refs"]) == pool["pages"]
    until(lambda: held(studio) == 0)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"model": "/etc"}, "'/etc' is not here; plans are made for"),
        ({"model": "../weights/tiny-var"}, "is not here"),
        ({"model": "tiny-video", "tokens": 5}, "says nothing of a model"),
        ({"model": "tiny-video", "sequences": 0}, "out of range"),
        ({"model": "tiny-video", "memory": "plenty"}, "plenty"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused_with_a_sentence(
    named: Served, query: dict[str, object], said: str
) -> None:
    client, _ = named
    answer = client.get("/plan", params=query)
    assert (answer.status_code, said in answer.json()["why"]) == (400, True), answer.text
