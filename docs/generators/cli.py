"""Write docs/cli.md, the reference of the command, from the command itself: python docs/generators/cli.py."""

import inspect
from collections import defaultdict
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from typer.main import get_command

from streamgen.cli.app import app

PAGE = Path(__file__).resolve().parents[1] / "cli.md"
_WORDS = {int: "N", float: "NUMBER", str: "TEXT", Path: "FILE"}
HEAD = """# The command

Written by `docs/generators/cli.py` from the code; `streamgen COMMAND --help` says the same.

stdout carries frames, answers and JSON; everything else goes to stderr. Exit codes: 0 done (also when the reader of a pipe left), 1 failed on
the way, 2 asked wrongly, 130 interrupted. `streamgen --traceback COMMAND ...` shows where a failure came from.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_command(command, name) for name, command in _leaves(get_command(app), "streamgen"))


def _leaves(command: Any, name: str) -> list[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    if not hasattr(command, "commands"):
        return [(name, command)]
    return [leaf for word, below in command.commands.items() for leaf in _leaves(below, f"{name} {word}")]


def _command(command: Any, name: str) -> str:
    panels: dict[str, list[Any]] = defaultdict(list)
    for parameter in command.params:
        if parameter.name != "help":
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panels[getattr(parameter, "rich_help_panel", None) or kind].append(parameter)
    text = f"\n## {name}\n\n{inspect.cleandoc(command.help or '')}\n"
    hints = get_type_hints(command.callback)
    for panel, parameters in panels.items():
        text += f"\n| {panel} | | default |\n|---|---|---|\n"
        text += "".join(_row(parameter, hints) for parameter in parameters)
    return text


def _row(parameter: Any, hints: dict[str, Any]) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).upper()}`"
    else:
        names = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
        if not parameter.is_flag:
            names += f" {_kind(parameter, hints)}"
    default = parameter.default
    plain = default is None or default is False or default == () or callable(default) or default == []
    shown = "" if plain else f"`{default}`"
    help_text = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| {names} | {help_text} | {shown} |\n"


def _kind(parameter: Any, hints: dict[str, Any]) -> str:
    """What stands behind an option: its own word, or the kind of its value."""
    kinds = [kind for kind in get_args(hints[parameter.name]) if kind is not NoneType]
    kind = kinds[0] if kinds else hints[parameter.name]
    kind = (get_args(kind) or (kind,))[0]
    return f"{(parameter.metavar or _WORDS[kind])}{' ...' if parameter.multiple else ''}"


if __name__ == "__main__":
    PAGE.write_text(page())
