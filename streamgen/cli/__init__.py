"""The `streamgen` command."""

import os
import sys
from contextlib import suppress

from streamgen.cli.say import say

_INTERRUPTED = 130


def main() -> None:
    """Entry point of the console script."""
    try:
        from streamgen.cli.guard import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before the guard stood, or once more while it left
        say("interrupted.")
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        # Files are closed. Python would now take torch apart for seconds, and whoever pressed Ctrl-C waits.
        with suppress(OSError):
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        os._exit(code)
    sys.exit(code)
