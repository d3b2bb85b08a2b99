"""`streamgen kernels`: every attention kernel, whether it runs here, and if not, what would mend it."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from streamgen.attention.report import KernelReport

WHY = "why not, and what to do"
COLUMNS = ("kernel", "installed", "usable", "masks", "pages", "self-test", WHY)


def kernels(
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda; where caches would lie by default.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> int:
    """List every attention kernel: installed? usable here? if not, what to install; and its self-test."""
    from streamgen.cli.backend import pick_device
    from streamgen.cli.request import parse_device
    from streamgen.cli.table import show

    chosen = pick_device(parse_device(device))
    from streamgen.attention.report import describe_kernels

    reports = describe_kernels(chosen)
    if as_json:
        print(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        show(COLUMNS, [_row(report) for report in reports], below=WHY)
    return 0


def _row(report: "KernelReport") -> tuple[str, ...]:
    return (
        report.name,
        _yes(report.installed),
        _yes(report.usable),
        " ".join(report.masks),
        "in place" if report.paged else "gathered",
        report.selftest,
        f"{report.reason}; {report.fix}." if report.reason else "",
    )


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
