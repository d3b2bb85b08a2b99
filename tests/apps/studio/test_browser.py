"""The page in Debian's Chromium, on the bundled models: what hands and eyes find on each tab."""

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
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-fake-ui-for-media-stream",  # the camera is allowed,
    "--use-fake-device-for-media-stream",  # and films a test pattern
]
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
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of a walk through snow, made by the product itself."""
    path = tmp_path_factory.mktemp("walk") / "walk.mp4"
    words = "a hero in a red coat through snow"
    command = [
        sys.executable,
        "-m",
        "streamgen.cli",
        "world",
        "-p",
        words,
        "--actions",
        "d*32",
        "--seed",
        "1",
    ]
    subprocess.run([*command, "-q", "-o", str(path)], cwd=ROOT, check=True, timeout=PATIENCE)
    return path


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        opened = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
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


def memory(address: str) -> Any:
    return httpx.get(f"{address}memory", timeout=60).json()


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def started(page: Any, address: str) -> None:
    """A world that runs."""
    page.goto(address)
    page.click("studio-world[tab=world] .primary:enabled")
    page.wait_for_selector("studio-world[tab=world][data-frame]")


def test_a_played_world_is_asked_about_recorded_and_made_again_in_every_bit(page: Any, address: str) -> None:
    started(page, address)
    world = "studio-world[tab=world]"
    page.click(f"{world} button:has-text('Record')")
    page.fill(f"{world} .s-prompt", "a hero in a blue coat in the desert at noon")
    page.click(f"{world} button:has-text('Change the prompt')")
    page.wait_for_selector(f"{world} .s-receipts li.applied:has-text('in the desert at noon')")

    tab(page, "Ask")
    page.select_option("studio-ask select >> nth=0", "window")
    page.fill("studio-ask input[type=number] >> nth=0", "48")
    page.click("studio-ask button[data-watch=world]:enabled")
    page.wait_for_selector("studio-ask .s-receipts li:has-text('memory window, 48 tokens a layer')")
    page.wait_for_function("Number(document.querySelector('studio-ask').dataset.time) >= 1")
    frame = page.get_attribute(world, "data-frame")
    page.keyboard.down("KeyD")
    page.wait_for_function(f"Number(document.querySelector('{world}').dataset.frame) > {frame} + 4")
    page.keyboard.up("KeyD")
    page.click("studio-ask .s-preset:has-text('where is the hero now')")
    answer = page.wait_for_selector("studio-ask .s-receipts li.applied .s-answer")
    assert answer.inner_text().strip() == "desert"

    tab(page, "World")
    page.click(f"{world} button:has-text('Finish recording')")
    page.wait_for_selector(f"{world} .s-receipts a")
    tab(page, "Replay")
    page.click("studio-replay .s-preset")
    replay = "document.querySelector('studio-replay').dataset"
    page.wait_for_selector("studio-replay select:enabled")
    page.select_option("studio-replay select", "16")
    page.wait_for_function(f"{replay}.compared > 0 && Number({replay}.chunk) == {replay}.chunks - 1")
    equal, compared = (page.get_attribute("studio-replay", f"data-{name}") for name in ("equal", "compared"))
    assert equal == compared
    assert page.complaints == []


def test_an_upload_and_the_camera_are_watched(page: Any, address: str, walk: Path) -> None:
    page.goto(address)
    tab(page, "Ask")
    page.wait_for_selector("studio-ask input[type=file]:enabled")
    page.select_option("studio-ask select >> nth=1", "fast")
    page.set_input_files("studio-ask input[type=file]", walk)
    page.wait_for_selector("studio-ask .s-receipts li:has-text('It ended at')")
    page.click("studio-ask .s-preset:has-text('where is the hero now')")
    answer = page.wait_for_selector("studio-ask .s-receipts li.applied .s-answer")
    assert answer.inner_text().strip() == "snow"

    page.click("studio-ask button:has-text('Watch the camera')")
    page.wait_for_selector("studio-ask .s-receipts li:has-text('Watching camera')")
    page.wait_for_function("Number(document.querySelector('studio-ask').dataset.time) >= 1")
    page.click("studio-ask button:has-text('Stop')")
    page.wait_for_selector("studio-ask .s-cover:has-text('Stopped')")
    assert page.complaints == []


def test_two_pages_are_isolated_and_closing_one_frees_its_pages_within_two_seconds(
    page: Any, address: str
) -> None:
    started(page, address)
    until(lambda: len(memory(address)["sessions"]) == 1)  # those of the pages before have gone
    alone = memory(address)["arena"]["held"]
    other = page.context.new_page()
    other.set_default_timeout(1000 * PATIENCE)
    started(other, address)
    other.keyboard.down("KeyD")
    other.wait_for_selector("studio-world .s-cap.KeyD.applied")
    assert page.locator("studio-world .s-cap.held, studio-world .s-cap.applied").count() == 0
    other.keyboard.up("KeyD")
    stage = other.locator("studio-world[tab=world] .s-stage").bounding_box()
    other.mouse.move(stage["x"] + 200, stage["y"] + 200)  # a mouse is a stick where a model obeys keys only
    other.mouse.down()
    other.mouse.move(stage["x"] + 204, stage["y"] + 260, steps=4)
    other.wait_for_selector("studio-world .s-cap.KeyS.held")
    other.mouse.up()
    other.wait_for_selector("studio-world .s-cap.KeyS:not(.held)")
    both = memory(address)
    assert both["arena"]["held"] > alone and len(both["sessions"]) == 2
    other.close()
    until(lambda: memory(address)["arena"]["held"] < 0.75 * both["arena"]["held"], seconds=2)
    assert len(memory(address)["sessions"]) == 1
    frame = page.get_attribute("studio-world[tab=world]", "data-frame")
    page.wait_for_function(
        f"Number(document.querySelector('studio-world[tab=world]').dataset.frame) > {frame}"
    )
    assert page.complaints == []


def test_pictures_texts_and_numbers_do_their_job_and_a_link_opens_its_tab(page: Any, address: str) -> None:
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"{address}?tab=image&prompt=8&seed=5")
    page.click("studio-image .primary:enabled")
    page.wait_for_selector("studio-image figure[role=button]:has-text('8 · seed 5')")
    page.focus("studio-image .s-mask canvas >> nth=1")
    page.keyboard.press("l")  # the lower half
    page.fill("studio-image input[list]", "3")
    page.click("studio-image button:has-text('Paint it anew there')")
    page.wait_for_selector("studio-image figure[role=button]:has-text('3 · seed 5')")

    tab(page, "Text")
    if (ROOT / "weights" / "tiny-lm").is_dir():
        page.click("studio-text .primary:enabled")
        assert "map" in page.wait_for_selector("studio-text .s-card.done p").inner_text()
    else:
        page.wait_for_selector("studio-text .s-note:has-text('tiny-lm')")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # a phone
    page.set_viewport_size({"width": 1280, "height": 900})

    tab(page, "Memory & kernels")
    page.wait_for_selector("studio-memory td:has-text('sdpa')")
    page.select_option("studio-memory select >> nth=0", "tiny-var")
    page.click("studio-memory button:text-is('Plan')")
    page.wait_for_selector("studio-memory p:has-text('sequences fit')")
    assert page.complaints == []
