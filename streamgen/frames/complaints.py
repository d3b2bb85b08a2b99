"""The sentences for what goes wrong with a source, and the error that carries each."""

from av.error import EOFError as EndError
from av.error import ExitError, InvalidDataError

from streamgen.frames.read_errors import DamagedVideoError, NoVideoError, ReadError, SourceLostError
from streamgen.frames.source import Source
from streamgen.frames.tally import Tally


class Complaints:
    """Errors about one source, with what came before them."""

    def __init__(self, source: Source, timeout: float, tally: Tally) -> None:
        self._source, self._timeout, self._tally = source, timeout, tally

    def refusal(self, error: Exception) -> ReadError:
        """It could not be opened."""
        name, words = self._source.name, self._words(error)
        if self._source.may_return:
            return SourceLostError(f"{name} cannot be opened: {words}.", self._tally.decoded)
        if isinstance(error, (InvalidDataError, EndError)):
            return NoVideoError(
                f"{name} is no video: nothing in it can be recognised; it may be cut off or of another kind."
            )
        return NoVideoError(f"{name} cannot be opened: {words}.")

    def failure(self, error: Exception) -> ReadError:
        """It was open, and reading it failed."""
        words = self._words(error)
        return self.lost(words) if self._source.may_return else self.broken(f"reading failed: {words}")

    def broken(self, words: str) -> ReadError:
        """Its data make no sense, or are not all there; over a network they may come better the next time."""
        if self._source.kind == "server":
            return self.lost(words)
        came = _frames(self._tally.decoded, "good ")
        return DamagedVideoError(
            f"{self._source.name} is damaged: {words}; {came} came before that.",
            self._tally.decoded,
            self._tally.seconds,
        )

    def lost(self, words: str) -> SourceLostError:
        """It went away."""
        frames, seconds = self._tally.decoded, self._tally.seconds
        return SourceLostError(
            f"{self._source.name} was lost after {_frames(frames)}: {words}.", frames, seconds
        )

    def none(self, words: str) -> NoVideoError:
        """It holds no video."""
        return NoVideoError(f"{self._source.name} holds {words}.")

    def _words(self, error: Exception) -> str:
        if isinstance(error, ExitError):
            return f"it did not answer within {self._timeout:g} s"
        words = getattr(error, "strerror", None) or str(error)
        return str(words).rstrip(".")


def _frames(count: int, which: str = "") -> str:
    return f"{count} {which}frame" if count == 1 else f"{count or 'no'} {which}frames"
