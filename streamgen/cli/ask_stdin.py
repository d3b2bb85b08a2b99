"""Questions on standard input, one a line, while a video is watched."""

import json
import os
import select
import sys
import threading
from collections import deque

from streamgen.cli.ask_times import Asking, parse_time
from streamgen.cli.words import utf8
from streamgen.errors import UsageError

_LOOK = 0.1  # seconds between two looks at whether anybody still listens
_BYTES = 4096


def read_question(line: str) -> Asking:
    """A line of words, or {"question": "...", "at": 12.5}."""
    words = line.strip()
    if not words.startswith("{"):
        return Asking(words, None)
    try:
        asked = json.loads(words)
    except ValueError as error:
        raise UsageError(f'{words!r} is no JSON line such as {{"question": "...", "at": 12.5}}.') from error
    if asked.keys() - {"question", "at"} or not str(asked.get("question", "")).strip():
        raise UsageError(f"{words!r} is not understood; a line has a question, and may have at.")
    at = asked.get("at")
    return Asking(
        utf8(str(asked["question"]).strip(), "A question on standard input"),
        None if at is None else parse_time(str(at), '"at"'),
    )


class LiveQuestions:
    """A thread reads descriptor 0; buffered standard input would be locked by it when the command leaves."""

    def __init__(self) -> None:
        self._waiting: deque[Asking] = deque()
        self._error: UsageError | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def open(self) -> bool:
        """Whether more may come, or something waits; a line that was not understood is raised here."""
        if self._error is not None:
            raise self._error
        return bool(self._waiting) or not self._ended.is_set()

    def take(self) -> list[Asking]:
        """What came since the last call."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken

    def wait(self, seconds: float) -> None:
        """Until the source ends, but not longer than this."""
        self._ended.wait(seconds)

    def _read(self) -> None:
        rest = b""
        descriptor = sys.stdin.fileno()
        try:
            while True:
                if not select.select([descriptor], [], [], _LOOK)[0]:
                    continue
                data = os.read(descriptor, _BYTES)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines if data else [rest]:
                    if line.strip():
                        self._waiting.append(read_question(line.decode("utf-8")))
                if not data:
                    return
        except UnicodeDecodeError:
            self._error = UsageError("A question on standard input is not UTF-8 text.")
        except UsageError as error:
            self._error = error
        finally:
            self._ended.set()
