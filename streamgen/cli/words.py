"""Words from the command line, a pipe or a file: UTF-8, read once, and lines that end at a line feed."""

from pathlib import Path

from streamgen.cli.streams import standard_input
from streamgen.errors import UsageError

STDIN = "-"


def is_typed(asked: str) -> bool:
    """Whether these are the words themselves, and not `-` or `@FILE`."""
    return asked != STDIN and not asked.startswith("@")


def read_words(asked: str) -> str:
    """Words as given, `-` for standard input, `@FILE` for a file."""
    if is_typed(asked):
        return utf8(asked, "The prompt")
    return read_source(asked.removeprefix("@"), "prompt")


def read_source(source: str, what: str) -> str:
    """All of standard input or of a file, with `\\n` for `\\r\\n`."""
    if source == STDIN:
        return _decoded(standard_input().read(), f"The {what} from standard input")
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"The {what} file {path} cannot be read: {error.strerror}.") from error
    return _decoded(data, f"The {what} file {path}")


def utf8(words: str, what: str) -> str:
    """The same words; other bytes come from a command line as surrogates, and no model reads those."""
    try:
        words.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} is not UTF-8 text.") from error
    return words


def refuse_blank(words: str, asked: str) -> None:
    """Refuse a prompt without a word."""
    if not words.strip():
        where = "given" if is_typed(asked) else "from standard input" if asked == STDIN else f"in {asked[1:]}"
        raise UsageError(f"The prompt {where} is empty; write at least a word.")


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} is not UTF-8 text.") from error
