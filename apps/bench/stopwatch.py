"""Seconds spent inside some methods while a block runs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch


class Stopwatch:
    """Adds up the time of calls; watched methods must not call each other."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function under the watch."""

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began

        return run

    def lap(self) -> float:
        """The seconds since the last lap."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


@contextmanager
def watching(methods: Sequence[tuple[type, str]]) -> Iterator[Stopwatch]:
    """A stopwatch over (class, method) pairs, for as long as the block runs."""
    watch = Stopwatch()
    with ExitStack() as undo:
        for owner, name in methods:
            undo.enter_context(patch.object(owner, name, watch.timed(getattr(owner, name))))
        yield watch
