"""How the studio starts: what is refused before, and what a browser sees meanwhile."""

import socket
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from apps.studio.run import run
from apps.studio.server import application
from apps.studio.settings import StudioSettings
from apps.studio.shelf import Shelf
from apps.studio.studio import Studio
from streamgen.cli.app import app
from streamgen.errors import UsageError
from tests.apps.studio.fakes import until


def test_a_port_that_is_taken_is_refused_with_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            run(StudioSettings(port=port), lambda words: None)


def test_without_its_packages_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "streamgen.cli.demo.find_spec", lambda name: None if name == "gradio" else find_spec(name)
    )
    command = typer.main.get_command(app)
    with pytest.raises(UsageError, match=r"needs gradio.*pip install 'streamgen\[studio\]'"):
        command.main(["demo"], standalone_mode=False)


def test_the_page_answers_while_the_real_one_is_built_and_makes_way_for_it() -> None:
    built = threading.Event()

    def build() -> Starlette:
        assert built.wait(30)
        return Starlette(routes=[Route("/", lambda request: PlainTextResponse("the real page"))])

    with TestClient(application(Studio(StudioSettings(), Shelf({})), build)) as client:
        early = client.get("/")
        assert (early.status_code, "streamgen studio" in early.text) == (200, True)
        assert client.get("/loading").json()["page"] == {"ready": False, "trouble": ""}
        assert client.get("/config").status_code == 503
        built.set()
        until(lambda: client.get("/loading").json()["page"]["ready"])
        assert client.get("/").text == "the real page"


def test_a_page_that_cannot_be_built_says_why() -> None:
    def build() -> Starlette:
        raise RuntimeError("no gradio today")

    with TestClient(application(Studio(StudioSettings(), Shelf({})), build)) as client:
        until(lambda: client.get("/loading").json()["page"]["trouble"])
        assert "no gradio today" in client.get("/loading").json()["page"]["trouble"]


def test_models_load_one_after_another_and_a_listener_hears_of_each_step(
    world_folder: Path, tmp_path: Path
) -> None:
    heard: list[list[str]] = []
    shelf = Shelf({"world": str(world_folder), "video": str(tmp_path)}, device="cpu")
    states: Any = lambda: [slot.state for slot in shelf.slots.values()]  # noqa: E731
    shelf.listen(lambda: heard.append(states()))
    shelf.load()
    assert heard == [
        ["loading", "waiting"],
        ["ready", "waiting"],
        ["ready", "loading"],
        ["ready", "failed"],
    ]
    assert "has no streamgen.json" in shelf.slots["video"].trouble


@pytest.mark.parametrize("name", ["studio.js", "world.js", "studio.css", "waiting.html"])
def test_the_page_asks_nothing_of_other_servers(name: str) -> None:
    static = StudioSettings().static
    assert (static / name).is_file()
    for path in static.iterdir():
        told = path.read_bytes()
        assert b"http://" not in told and b"https://" not in told, path.name
