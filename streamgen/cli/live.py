"""Live keys on standard input: characters of a terminal, or JSON lines of a pipe."""

import os
import select
import sys
import termios
import threading
import tty
from types import TracebackType
from typing import Self

from streamgen.errors import UsageError
from streamgen.pipelines.control import HeldKeys, feed_characters, read_lines
from streamgen.pipelines.world_keys import Actions
from streamgen.pipelines.world_settings import ActionSettings

_LOOK = 0.1  # seconds between two looks at whether the world is still there


class LiveKeys:
    """A thread reads while the world computes; leaving the block gives the terminal back."""

    def __init__(self, settings: ActionSettings) -> None:
        self._settings = settings
        self._keys = HeldKeys()
        self._error: Exception | None = None
        self._source_ended = False
        self._left = threading.Event()
        self._before: list[object] | None = None

    @property
    def ended(self) -> bool:
        """Whether the source ended and was played; a line that was not understood is raised here."""
        if self._error is not None:
            raise self._error
        return self._source_ended and not self._keys.waiting

    def take(self) -> tuple[Actions, list[str], float]:
        """What counts for the next chunk. A key that the model does not obey was typed by chance in a
        terminal, and is an error in a pipe."""
        actions, prompts, since = self._keys.take()
        if self._before is not None:
            actions = self._settings.obeys(actions)
        return actions, prompts, since

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin.fileno())
            tty.setcbreak(sys.stdin.fileno())
            work = self._read_terminal
        else:
            work = self._read_pipe
        threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        if self._before is not None:
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def _read_terminal(self) -> None:
        descriptor = sys.stdin.fileno()
        while not self._left.is_set():
            if select.select([descriptor], [], [], _LOOK)[0]:
                data = os.read(descriptor, 256)
                if not data:
                    break
                feed_characters(self._keys, data)
        self._end(None)

    def _read_pipe(self) -> None:
        read_lines(self._keys, sys.stdin.buffer, self._end)

    def _end(self, error: Exception | None) -> None:
        if isinstance(error, UnicodeDecodeError):
            error = UsageError("A line of actions on standard input is not UTF-8 text.")
        self._error = error
        self._source_ended = True
