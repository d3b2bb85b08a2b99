"""The bases of what streamgen raises and warns of on purpose: sentences a user can act on."""


class StreamgenError(Exception):
    """Says what was asked, what there is, and what to do."""


class UsageError(StreamgenError, ValueError):
    """A caller asked for something that cannot be had."""


class StreamgenWarning(UserWarning):
    """Something was done as asked, and the result may not be what was meant."""


class OutOfMemoryError(StreamgenError, MemoryError):
    """A budget, a pool or a reserve is too small for what was asked; nothing has changed."""
