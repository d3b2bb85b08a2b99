"""The `streamgen` command."""

import sys


def main() -> None:
    """Entry point of the console script."""
    from streamgen.cli.guard import run

    sys.exit(run(sys.argv[1:]))
