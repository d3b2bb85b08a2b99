"""The commands of `streamgen`; each one imports what it needs when it runs, so that --help is quick."""

from typing import Annotated

import typer

from streamgen import __version__
from streamgen.cli import ask, bench, demo, image, kernels, models, plan, text, video, world

app = typer.Typer(
    name="streamgen",
    help="Video that streams from stock models. Frames and JSON go to stdout, everything else to stderr.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("video")(video.video)
app.command("image")(image.image)
app.command("world")(world.world)
app.command("replay")(world.replay)
app.command("ask")(ask.ask)
app.command("demo")(demo.demo)
app.command("text")(text.text)
app.command("kernels")(kernels.kernels)
app.command("plan")(plan.plan)
app.add_typer(models.app, name="models")
app.add_typer(bench.app, name="bench")


def _version(asked: bool) -> None:
    if asked:
        print(f"streamgen {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where a failure came from.")] = False,
) -> None:
    """Options before the command; `guard` reads --traceback."""
