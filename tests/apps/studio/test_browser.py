"""The page in Debian's Chromium: the World tab on the bundled model, played with a key."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.apps.studio.fakes import until

playwright = pytest.importorskip("playwright.sync_api", reason="the page's test needs playwright")
ROOT = Path(__file__).resolve().parents[3]
CHROMIUM = shutil.which("chromium")
PATIENCE = 240  # seconds; a busy machine imports and loads slowly
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
    pytest.mark.skipif(not (ROOT / "weights" / "tiny-world").is_dir(), reason="tiny-world is not bundled"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A studio of its own process, started by the command."""
    command = [sys.executable, "-m", "streamgen.cli", "demo", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r"http://[\d.:]+/", server.stderr.readline())
        assert found, "the address was not said"
        yield found[0]
        server.send_signal(signal.SIGINT)
        server.wait(30)


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.complaints = []
        opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.on(
            "console",
            lambda message: message.type == "error" and opened.complaints.append(message.text),
        )
        opened.on(
            "request",
            lambda request: (
                request.url.startswith((address, address.replace("http", "ws"), "data:", "blob:"))
                or opened.complaints.append(f"asked elsewhere: {request.url}")
            ),
        )
        yield opened
        browser.close()


def test_a_key_held_for_three_seconds_moves_the_world_and_leaving_frees_its_pages(
    page: Any, address: str
) -> None:
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(address)
    page.wait_for_selector("studio-world[tab=world] .s-stage")
    page.click("studio-world[tab=world] .primary:enabled")
    page.wait_for_selector("studio-world[tab=world][data-frame]")
    before = page.locator("studio-world[tab=world] canvas").screenshot()
    page.keyboard.down("KeyD")
    page.wait_for_selector("studio-world[tab=world] .s-cap.KeyD.held")
    page.wait_for_timeout(3000)
    page.wait_for_selector("studio-world[tab=world] .s-cap.KeyD.applied")
    page.keyboard.up("KeyD")
    page.wait_for_selector("studio-world[tab=world] .s-cap.KeyD:not(.held)")
    assert page.locator("studio-world[tab=world] canvas").screenshot() != before
    assert httpx.get(f"{address}memory").json()["arena"]["held"] > 0
    assert page.complaints == []
    page.goto("about:blank")
    until(lambda: httpx.get(f"{address}memory", timeout=60).json()["arena"]["held"] == 0, seconds=30)
    assert httpx.get(f"{address}memory").json()["sessions"] == []
