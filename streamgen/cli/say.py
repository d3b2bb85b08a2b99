"""One line on stderr, and what to do with a stdout that nobody reads."""

import os
import sys


def say(sentence: str) -> None:
    """Tell the user; a reader who closed stderr does not hear it."""
    try:
        print(f"streamgen: {sentence}", file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 -- stays open until the process ends


def let_go_of_stdout() -> None:
    """Leave Python nothing to flush into a pipe without a reader."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
