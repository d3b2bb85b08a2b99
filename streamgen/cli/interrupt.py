"""Ctrl-C: once finishes the chunk and closes the file well, twice leaves at once."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

_SHOW_CURSOR = b"\x1b[?25h"
_ONCE = b"streamgen: finishing this chunk and closing the file; Ctrl-C again leaves at once.\n"


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
        # os.write, because a signal may come in the middle of somebody's print.
        if self.asked:
            if sys.stderr.isatty():
                os.write(2, _SHOW_CURSOR)
            os._exit(130)  # now: a recording is fragmented, so what was written plays
        self.asked = True
        if not self._quiet:
            with suppress(OSError):
                os.write(2, _ONCE)
