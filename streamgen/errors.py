"""The base of every error that streamgen raises on purpose: a sentence a user can act on."""


class StreamgenError(Exception):
    """Says what was asked, what there is, and what to do."""


class UsageError(StreamgenError, ValueError):
    """A caller asked for something that cannot be had."""
