"""One line on stderr."""

import os
import sys


def say(sentence: str) -> None:
    """Tell the user; a reader who closed stderr does not hear it."""
    try:
        print(f"streamgen: {sentence}", file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 -- stays open until the process ends
