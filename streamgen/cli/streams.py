"""The three standard streams, some of which may have been closed by whoever started the command."""

import os
import sys
from typing import BinaryIO

from streamgen.errors import UsageError


def settle_streams() -> None:
    """Refuse a closed stdout; what is said to a closed stderr goes nowhere.

    The next file to be opened would get the number of the closed stream, and what is meant for the stream.
    """
    if sys.stderr is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 2:
            os.dup2(nowhere, 2)
            os.close(nowhere)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 -- stays open until the process ends
    if sys.stdout is None:
        raise UsageError("Standard output is closed; leave it open, or send it to /dev/null.")


def standard_input() -> BinaryIO:
    """Standard input as bytes; refused where it is closed."""
    if sys.stdin is None:
        raise UsageError("Standard input is closed and was to be read; pipe something in, or name a file.")
    return sys.stdin.buffer


def typed_at() -> bool:
    """Whether somebody types standard input at a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()
