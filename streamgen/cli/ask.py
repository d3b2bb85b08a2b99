"""`streamgen ask`: watch a video and answer questions about it, in fixed memory."""

from typing import Annotated

import typer

_WHAT, _HOW, _OUT, _MACHINE = "What to watch", "How to remember it", "Where answers go", "The machine"


def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VIDEO QUESTION",
            show_default=False,
            help="A file, a URL, cam:0, or - for a pipe; then questions, or - for one a line on stdin.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--input", "-i", help="The video; every argument is a question then.", rich_help_panel=_WHAT
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME",
            help="When it is asked: 12.5, 3:10 or 0:03:10. One for all questions, one for each, or several "
            "for one; else at the end of a video, and as soon as something was seen of a live source.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(help="Frames looked at in a second; the model's by default.", rich_help_panel=_WHAT),
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="Watch from here on.", rich_help_panel=_WHAT)
    ] = None,
    end: Annotated[
        str | None, typer.Option(metavar="TIME", help="Watch up to here.", rich_help_panel=_WHAT)
    ] = None,
    skip_damage: Annotated[
        bool,
        typer.Option("--skip-damage", help="Go on behind broken data in a file.", rich_help_panel=_WHAT),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(help="Seconds that a server or a camera may be silent.", rich_help_panel=_WHAT),
    ] = 10.0,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="A bundled name, a folder, or a pulled hub id.", rich_help_panel=_HOW
        ),
    ] = "tiny-vlm",
    memory: Annotated[
        str, typer.Option(help="hermes, window, uniform or full.", rich_help_panel=_HOW)
    ] = "hermes",
    budget: Annotated[
        int | None,
        typer.Option(
            help="Video tokens that each layer keeps; the model's by default.", rich_help_panel=_HOW
        ),
    ] = None,
    steer: Annotated[
        bool,
        typer.Option(help="Let past questions guide what is kept from then on.", rich_help_panel=_HOW),
    ] = True,
    most: Annotated[int | None, typer.Option(help="Most tokens of an answer.", rich_help_panel=_HOW)] = None,
    attention: Annotated[
        str, typer.Option(help="Attention kernel; see `streamgen kernels`.", rich_help_panel=_MACHINE)
    ] = "auto",
    dtype: Annotated[str | None, typer.Option(help="fp32 or bf16.", rich_help_panel=_MACHINE)] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_MACHINE)
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="One JSON line an answer.", rich_help_panel=_OUT)
    ] = False,
    stats: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.jsonl", help="One JSON line a chunk, with what was let go.", rich_help_panel=_OUT
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print settings and memory as JSON, watch nothing.", rich_help_panel=_OUT
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.", rich_help_panel=_OUT)] = False,
) -> int:
    """Watch a video, a stream or a camera and answer questions about it."""
    from streamgen.cli.ask_request import AskAsked, settle
    from streamgen.cli.ask_run import answer, dry

    wish = settle(
        AskAsked(
            words=tuple(words or ()),
            source=source,
            at=tuple(at or ()),
            fps=fps,
            start=start,
            end=end,
            skip_damage=skip_damage,
            timeout=timeout,
            model=model,
            memory=memory,
            budget=budget,
            steer=steer,
            most=most,
            attention=attention,
            dtype=dtype,
            device=device,
            jsonl=jsonl,
            stats=stats,
            quiet=quiet,
        )
    )
    return dry(wish) if dry_run else answer(wish)
