"""Ctrl-C: once finishes the chunk and closes the file well, twice leaves at once."""

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Self

from streamgen.cli.say import say

_SHOW_CURSOR = "\x1b[?25h"


class Interrupt:
    """Inside the block the first Ctrl-C only sets `asked`; before and after, it works as ever."""

    def __init__(self, quiet: bool) -> None:
        self.asked = False
        self._quiet = quiet

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            if sys.stderr.isatty():
                os.write(2, _SHOW_CURSOR.encode())
            os._exit(130)  # now: a recording is fragmented, so what was written plays
        self.asked = True
        if not self._quiet:
            say("finishing this chunk and closing the file; Ctrl-C again leaves at once.")
