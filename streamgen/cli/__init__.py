"""The `streamgen` command."""

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Entry point of the console script."""
    from streamgen.cli.guard import run

    code = run(sys.argv[1:])
    if code == _INTERRUPTED:
        # Files are closed. Python would now take torch apart for seconds, and whoever pressed Ctrl-C waits.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
