"""What can go wrong with a video that is read: it is none, it is damaged, or its source went away."""

from streamgen.errors import StreamgenError, UsageError


class ReadError(StreamgenError):
    """A video could not be read to its end; `frames` came before that, the last of them at `time` seconds."""

    def __init__(self, sentence: str, frames: int = 0, time: float | None = None) -> None:
        super().__init__(sentence)
        self.frames = frames
        self.time = time


class NoVideoError(ReadError, UsageError):
    """There is no video where one was named: no file, an empty one, no pictures in it, no such camera."""


class DamagedVideoError(ReadError):
    """The data are broken or end too early; what came before is good."""


class SourceLostError(ReadError):
    """A camera or a server did not answer, or went away and did not come back in the tries it was given."""
