"""`streamgen demo`: the studio, which is streamgen in a browser."""

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from streamgen.errors import UsageError

_WHAT, _WHO, _MACHINE = "What to play with", "Who may come", "The machine"
_NEEDED = ("fastapi", "uvicorn", "websockets", "gradio")
_MODEL = "A bundled name, a folder, or a pulled hub id."


def demo(
    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel=_WHO)] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", rich_help_panel=_WHO)] = 7860,
    auth: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Ask every visitor for this token.", rich_help_panel=_WHO),
    ] = None,
    sessions: Annotated[int, typer.Option(help="Sessions that may be open.", rich_help_panel=_WHO)] = 8,
    upload: Annotated[int, typer.Option(help="MiB that one request may bring.", rich_help_panel=_WHO)] = 64,
    world: Annotated[str, typer.Option(help=_MODEL, rich_help_panel=_WHAT)] = "tiny-world",
    video: Annotated[str, typer.Option(help=_MODEL, rich_help_panel=_WHAT)] = "tiny-video",
    image: Annotated[str, typer.Option(help=_MODEL, rich_help_panel=_WHAT)] = "tiny-var",
    ask: Annotated[str, typer.Option(help=_MODEL, rich_help_panel=_WHAT)] = "tiny-vlm",
    text: Annotated[str, typer.Option(help=_MODEL, rich_help_panel=_WHAT)] = "tiny-lm",
    memory: Annotated[
        str | None, typer.Option(help="Budget of all caches, such as 4GiB.", rich_help_panel=_MACHINE)
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_MACHINE)
    ] = None,
) -> None:
    """Open the studio: a page to play worlds, stream video, make pictures and watch the cache."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"The studio needs {', '.join(missing)}, which is not installed; "
            "get it with: pip install 'streamgen[studio]'."
        )
    from streamgen.cli.request import parse_device
    from streamgen.cli.say import say

    settings = import_module("streamgen_apps.studio.settings").StudioSettings(
        host=host,
        port=port,
        token=auth,
        sessions=sessions,
        upload=upload * 2**20,
        memory=memory,
        device=parse_device(device),
        models={"world": world, "video": video, "image": image, "ask": ask, "text": text},
    )
    import_module("streamgen_apps.studio.run").run(settings, say)
