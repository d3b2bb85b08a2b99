"""x"""

import typer

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """x"""


@app.command("xx")
def xx_() -> None:
    """x"""
