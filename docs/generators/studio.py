"""Write docs/pictures/studio-*.png from a running studio: python docs/generators/studio.py [TAB ...].

Needs Playwright and Debian's Chromium. Sizes are kept small by 128 colours.
"""

import io
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
PATIENCE = 100_000  # milliseconds; a busy machine loads slowly
SIZE = {"width": 1180, "height": 860}
PHONE = {"width": 390, "height": 844}


def show(page: Any, label: str) -> None:
    page.get_by_role("tab", name=label, exact=True).click()


def world(page: Any) -> None:
    page.click("studio-world[tab=world] [data-opening=lake]")
    page.wait_for_selector("studio-world[tab=world][data-frame]")
    page.click("studio-world[tab=world] button:has-text('Record')")
    page.keyboard.down("KeyD")
    page.wait_for_selector("studio-world[tab=world] .s-cap.KeyD.applied")
    page.wait_for_timeout(3000)
    page.keyboard.up("KeyD")
    page.fill("studio-world[tab=world] textarea", "a hero in a red coat walks south through the snow at dusk")
    page.keyboard.press("Enter")
    page.wait_for_selector("studio-world[tab=world] .s-receipts .applied")
    page.click("studio-world[tab=world] >> text=Fork")
    page.wait_for_selector("studio-world[tab=world] canvas:nth-of-type(2)")
    page.wait_for_timeout(2500)


def video(page: Any) -> None:
    page.click("studio-world[tab=video] .s-preset >> nth=1")
    page.wait_for_function("Number(document.querySelector('studio-world[tab=video]').dataset.frame) > 12")


def image(page: Any) -> None:
    page.fill("studio-image input[list]", "8")
    page.fill("studio-image input[placeholder=drawn]", "5")
    page.click("studio-image .primary:enabled")
    page.wait_for_selector("studio-image figure[role=button]")
    page.focus("studio-image .s-mask canvas >> nth=1")
    page.keyboard.press("l")
    page.wait_for_timeout(300)


def ask(page: Any) -> None:
    show(page, "World")
    page.click("studio-world[tab=world] button:has-text('Keep left')")
    show(page, "Ask")
    page.click("studio-ask button[data-watch=world]:enabled")
    page.wait_for_function("Number(document.querySelector('studio-ask').dataset.time) >= 1")
    page.click("studio-ask .s-preset:has-text('where is the hero now')")
    page.wait_for_selector("studio-ask .s-receipts li.applied .s-answer")


def text(page: Any) -> None:
    page.wait_for_selector("studio-text .primary:enabled")
    for number, way in enumerate(("nothing", "prompt")):
        page.select_option("studio-text select >> nth=0", way)
        page.click("studio-text .primary")
        page.wait_for_selector(f"studio-text .s-card.done[data-number='{number + 1}']")
    page.click("studio-text >> text=Read it into an adapter")
    page.wait_for_selector("studio-text .s-receipts li")
    page.click("studio-text .primary")
    page.wait_for_selector("studio-text .s-card.done[data-number='3']")
    page.select_option("studio-text select >> nth=0", "prompt")
    page.check("studio-text input[type=checkbox]")
    page.fill("studio-text input[type=number] >> nth=0", "4")
    page.click("studio-text .primary")
    page.wait_for_selector("studio-text .s-card.done[data-number='4']")


def replay(page: Any) -> None:
    show(page, "World")
    page.click("studio-world[tab=world] button:has-text('Finish recording')")
    page.wait_for_selector("studio-world[tab=world] .s-receipts a")
    show(page, "Replay")
    page.click("studio-replay .s-preset")
    page.wait_for_function("Number(document.querySelector('studio-replay').dataset.chunk) >= 4")


def memory(page: Any) -> None:
    page.wait_for_selector("studio-memory table", timeout=PATIENCE)
    page.click("studio-memory >> text=Plan >> nth=-1")
    page.wait_for_selector("studio-memory .s-panel table", timeout=PATIENCE)


TABS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "world": ("World", world),
    "video": ("Video", video),
    "image": ("Image", image),
    "ask": ("Ask", ask),
    "text": ("Text", text),
    "replay": ("Replay", replay),
    "memory": ("Memory & kernels", memory),
}


def keep(shot: bytes, name: str) -> None:
    """A PNG of few colours."""
    path = PICTURES / f"studio-{name}.png"
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(f"{path.name}: {path.stat().st_size} bytes")


def shoot(address: str, names: list[str]) -> None:
    """Every tab in one page, so that Memory shows what the others hold; a phone and the dark last."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: message.type == "error" and print("console:", message.text))
        page.goto(address)
        page.wait_for_selector("studio-world[tab=world] .primary:enabled")
        page.wait_for_function(
            "fetch('/loading').then(a => a.json())"
            ".then(l => l.models.every(m => ['ready', 'failed'].includes(m.state)))"
        )
        for name in names:
            label, play = TABS[name]
            show(page, label)
            play(page)
            page.evaluate("window.scrollTo(0, 0)")
            keep(page.screenshot(full_page=name in ("image", "text", "memory")), name)
        if "world" in names:
            _other(browser, f"{address}?tab=world&__theme=dark", PHONE, "phone")
        browser.close()


def _other(browser: Any, address: str, size: dict[str, int], name: str) -> None:
    page = browser.new_page(viewport=size)
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.click("studio-world[tab=world] .primary:enabled")
    page.wait_for_selector("studio-world[tab=world] .s-readout span")
    page.evaluate("window.scrollTo(0, 0)")
    keep(page.screenshot(), name)


def main() -> None:
    command = [sys.executable, "-m", "streamgen.cli", "demo", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None, "it is piped"
        found = re.search(r"http://[\d.:]+/", server.stderr.readline())
        assert found, "the address was not said"
        try:
            shoot(found[0], sys.argv[1:] or list(TABS))
        finally:
            server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
