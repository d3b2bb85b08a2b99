"""The manners every command shares: one sentence for an error, and an exit code that says which kind.

0 done (also when the reader of a pipe left), 1 failed while running, 2 asked wrongly, 130 interrupted.
"""

import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TextIO

import typer
from typer.main import get_command

from streamgen.cli.app import app
from streamgen.cli.say import let_go_of_stdout, say
from streamgen.cli.streams import settle_streams
from streamgen.errors import StreamgenError, StreamgenWarning, UsageError

_ARGUMENT = re.compile(r"^([a-z_]+)=")  # how Python names what the command line calls --top-k
DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
LONGEST = 400  # characters of an unexpected error; some of them print tensors

# Typer may bring its own click; its error base is reached through the name that typer promises.
CommandLineError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing but SystemExit's code leaves here."""
    warnings.showwarning = _show_warning
    try:
        settle_streams()
        outcome = _invoked(arguments)
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else DONE
    except BrokenPipeError:
        let_go_of_stdout()
        return DONE
    except SystemExit as leave:
        if isinstance(leave.__context__, BrokenPipeError):  # rich leaves so, when nobody reads its help
            return DONE
        raise
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted.")
        return INTERRUPTED
    except (CommandLineError, UsageError) as error:
        if str(error):  # a command without arguments has shown its help
            say(_sentence(error))
        return WRONG
    except (
        Exception
    ) as error:  # the last stop before a user: a sentence, and the trace where it was asked for
        if "--traceback" in arguments:
            traceback.print_exc()
        say(_sentence(error) if isinstance(error, StreamgenError) else _unexpected(error))
        return FAILED


def _invoked(arguments: Sequence[str]) -> object:
    """The command's own answer; typer's main() would make exit codes of Ctrl-C and of readers that left."""
    command = get_command(app)
    try:
        with command.make_context("streamgen", list(arguments)) as context:
            return command.invoke(context)
    except typer.Exit as leave:
        return leave.exit_code


def _sentence(error: Exception) -> str:
    words = getattr(error, "format_message", error.__str__)()
    line = _ARGUMENT.sub(lambda match: f"--{match[1].replace('_', '-')} ", " ".join(words.split()))
    return line if line.endswith((".", "!", "?")) else f"{line}."


def _unexpected(error: Exception) -> str:
    words = " ".join(str(error).split())
    if isinstance(error, MemoryError) or "out of memory" in words or "t allocate memory" in words:
        return (
            "The memory of this machine was not enough; see --dry-run, and ask for less, such as a smaller "
            "--size, --window or --tokens."
        )
    words = words if len(words) <= LONGEST else f"{words[:LONGEST]}..."
    return f"{type(error).__name__}: {words.rstrip('.')}. (`streamgen --traceback ...` shows where.)"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings are for the user; those of libraries are for their developers."""
    if issubclass(category, StreamgenWarning):
        say(" ".join(str(message).split()))
