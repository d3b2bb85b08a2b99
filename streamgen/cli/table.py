"""A table on stdout: boxed for people, plain lines for programs."""

import sys
from collections.abc import Sequence


def show(columns: Sequence[str], rows: Sequence[Sequence[str]], below: str | None = None) -> None:
    """Print rows under their columns; in a pipe, one tab-separated line each.

    The column `below` holds sentences: on a terminal they stand under the table, each after its row's name.
    """
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print("\t".join(row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    kept = [index for index, column in enumerate(columns) if column != below]
    table = Table(*(columns[index] for index in kept), box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    console = Console(highlight=False)
    console.print(table)
    if below is not None:
        place = columns.index(below)
        console.print(*(f"{row[0]}: {row[place]}" for row in rows if row[place]), sep="\n")
