"""What the cache refuses, and why."""

from streamgen.errors import OutOfMemoryError, UsageError


class OutOfPagesError(OutOfMemoryError):
    """The pool has fewer free pages than a stage, a fork or a swap needs."""


class ReserveFullError(OutOfPagesError):
    """A bounded stream was asked to hold more tokens than its reserve."""


class CacheStateError(UsageError):
    """A call that a cache cannot take now: a stage is open, it is swapped out, or it is closed."""
