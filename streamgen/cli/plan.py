"""`streamgen plan`: what a model would hold for so many sequences, and whether that fits."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from streamgen.errors import UsageError

if TYPE_CHECKING:
    from streamgen.runtime.plan import Plan

_TEXT, _FRAMES = "Language models", "Video and worlds"


@dataclass(frozen=True)
class PlanAsked:
    """The command line as it was typed."""

    model: str
    tokens: int | None
    sequences: int
    shared: int
    window: int | None
    sink: int | None
    gqa: int | None
    page_size: int | None
    chunk: int | None
    size: str | None
    seconds: float | None
    dtype: str | None
    memory: str | None


def plan(
    model: Annotated[
        str, typer.Argument(help="A bundled name, a folder, a hub id in the cache, or a config.json alone.")
    ],
    sequences: Annotated[int, typer.Option(help="Texts, videos, worlds or pictures at a time.")] = 1,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What there is, such as 24GiB; says whether it fits.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="fp32 or bf16; that of this machine by default.")] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Of each text, prompt included.", rich_help_panel=_TEXT)
    ] = None,
    shared: Annotated[
        int, typer.Option(help="Tokens that all prompts begin with.", rich_help_panel=_TEXT)
    ] = 0,
    gqa: Annotated[
        int | None, typer.Option(help="As if converted to so many key heads.", rich_help_panel=_TEXT)
    ] = None,
    page_size: Annotated[int | None, typer.Option(help="Tokens of a page.", rich_help_panel=_TEXT)] = None,
    chunk: Annotated[
        int | None, typer.Option(help="Prompt tokens in one pass.", rich_help_panel=_TEXT)
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Latent frames that are remembered; tokens, of a text.", rich_help_panel=_FRAMES),
    ] = None,
    sink: Annotated[
        int | None, typer.Option(help="Latent frames never forgotten.", rich_help_panel=_FRAMES)
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Picture size.", rich_help_panel=_FRAMES)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Length of a video; endless by default.", rich_help_panel=_FRAMES)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> int:
    """Say what a model would hold: weights, the cache by the published formula, and what our pages take."""
    asked = PlanAsked(
        model, tokens, sequences, shared, window, sink, gqa, page_size, chunk, size, seconds, dtype, memory
    )
    made, facts = planned(asked)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        _show(made, facts)
    return 0


def planned(asked: PlanAsked) -> tuple["Plan", dict[str, object]]:
    """The plan of a wish, and everything about it as JSON holds it."""
    _check(asked)
    from streamgen.cli.plan_kinds import planner_of
    from streamgen.kv.arena import parse_bytes

    budget = None if asked.memory is None else parse_bytes(asked.memory)
    planner = planner_of(asked)
    made = planner.plan(asked.sequences)
    facts: dict[str, object] = {"model": asked.model, **planner.settled, "sequences": asked.sequences}
    facts |= made.record()
    if budget is not None:
        facts |= planner.limits(budget, asked.sequences)
    return made, facts


def _check(asked: PlanAsked) -> None:
    numbers = {
        "--sequences": (asked.sequences, 1),
        "--tokens": (asked.tokens, 1),
        "--shared": (asked.shared, 0),
        "--window": (asked.window, 1),
        "--sink": (asked.sink, 0),
        "--page-size": (asked.page_size, 1),
        "--chunk": (asked.chunk, 1),
    }
    for name, (value, least) in numbers.items():
        if value is not None and not least <= value < 2**40:
            raise UsageError(f"{name} {value} is out of range; it is a whole number from {least} on.")


def _show(made: "Plan", facts: dict[str, object]) -> None:
    from streamgen.cli.table import show
    from streamgen.kv.arena import format_bytes

    columns = ("what", "size", "bytes", "how")
    rows = [(s.what, format_bytes(s.nbytes), str(s.nbytes), s.how) for s in made.shares()]
    rows.append(("total", format_bytes(made.total), str(made.total), ""))
    rows.append(("by formula", format_bytes(made.formula.nbytes), str(made.formula.nbytes), made.formula.how))
    budget = facts.get("budget")
    if isinstance(budget, int):
        left = budget - made.total
        verdict = f"fits, {format_bytes(left)} are left" if left >= 0 else f"{format_bytes(-left)} too much"
        most = f"at most {facts['most_sequences']} sequences fit"
        if "most_tokens" in facts:
            most += f", or {facts['most_tokens']} tokens of {made.sequences}"
        rows.append(("memory", format_bytes(budget), str(budget), f"{verdict}; {most}"))
    show(columns, rows, below="how")
