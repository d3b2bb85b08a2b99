"""Keys as they are pressed: what was held at any time counts for the chunk, and silence lets go.

Two ways in: characters of a terminal, which knows no release, and JSON lines that say what goes down and up.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from streamgen.errors import UsageError
from streamgen.pipelines.world_keys import IDLE, Actions, named

SILENCE = 0.25  # seconds without a sign of life after which every key counts as released
_ARROWS = {b"A": "ArrowUp", b"B": "ArrowDown", b"C": "ArrowRight", b"D": "ArrowLeft"}


class HeldKeys:
    """Threads may press while the world asks; every press since the last chunk counts."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, silence: float = SILENCE) -> None:
        self._clock = clock
        self._silence = silence
        self._held: set[str] = set()
        self._seen = IDLE
        self._sign = clock()
        self._since: float | None = None  # when the first input of the coming chunk came
        self._prompts: deque[str] = deque()
        self._lock = threading.Lock()

    def press(self, code: str) -> None:
        """A key went down, or repeats."""
        pressed = Actions(frozenset({code}))
        with self._lock:
            self._touch()
            self._held.add(code)
            self._seen = self._seen | pressed

    def release(self, code: str) -> None:
        """A key went up; it still counts for the chunk in which it was down."""
        with self._lock:
            self._touch()
            self._held.discard(code)

    def move(self, x: float, y: float) -> None:
        """The mouse moved by so many pixels."""
        moved = Actions(mouse=(x, y))
        with self._lock:
            self._touch()
            self._seen = self._seen | moved

    def alive(self) -> None:
        """A heartbeat: what is held stays held."""
        with self._lock:
            self._sign = self._clock()

    def say(self, prompt: str) -> None:
        """A new prompt for the next chunk."""
        with self._lock:
            self._touch()
            self._prompts.append(prompt)

    @property
    def waiting(self) -> bool:
        """Whether something came that no chunk has taken yet."""
        return self._since is not None

    def take(self) -> tuple[Actions, list[str], float]:
        """Actions and prompts for a chunk, and when the first of them was given."""
        with self._lock:
            now = self._clock()
            if now - self._sign > self._silence:
                self._held.clear()
            actions = self._seen | Actions(frozenset(self._held))
            prompts = list(self._prompts)
            since = now if self._since is None else self._since
            self._seen, self._since = IDLE, None
            self._prompts.clear()
            return actions, prompts, since

    def _touch(self) -> None:
        self._sign = self._clock()
        if self._since is None:
            self._since = self._sign


def feed_line(keys: HeldKeys, line: str) -> None:
    """One JSON line: {"down": "KeyW"}, {"up": "KeyW"}, {"mouse": [3, 0]}, {"prompt": "..."} or {}."""
    try:
        words = json.loads(line)
    except ValueError as error:
        raise UsageError(f'{line.strip()!r} is not a JSON line such as {{"down": "KeyW"}}.') from error
    if not isinstance(words, dict) or words.keys() - {"down", "up", "mouse", "prompt"}:
        raise UsageError(f"{line.strip()!r} is not understood; a line has down, up, mouse or prompt.")
    keys.alive()
    if "down" in words:
        keys.press(words["down"])
    if "up" in words:
        keys.release(words["up"])
    if "mouse" in words:
        keys.move(*words["mouse"])
    if "prompt" in words:
        keys.say(words["prompt"])


def feed_characters(keys: HeldKeys, data: bytes) -> None:
    """What a terminal sends: letters, digits, space and arrows; anything else is not for the world."""
    place = 0
    while place < len(data):
        if data[place : place + 2] in (b"\x1b[", b"\x1bO") and data[place + 2 : place + 3] in _ARROWS:
            keys.press(_ARROWS[data[place + 2 : place + 3]])
            place += 3
            continue
        letter = chr(data[place])
        if letter == " ":
            keys.press("Space")
        elif letter.isascii() and letter.isalnum():
            keys.press(next(iter(named(letter).keys)))
        place += 1


def read_lines(keys: HeldKeys, source: BinaryIO, on_end: Callable[[Exception | None], None]) -> None:
    """Feed every line until the source ends; for a thread of its own."""
    try:
        for line in source:
            if line.strip():
                feed_line(keys, line.decode("utf-8"))
    except (UsageError, UnicodeDecodeError) as error:
        on_end(error)
        return
    on_end(None)
