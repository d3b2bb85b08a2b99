"""`streamgen world` and `streamgen replay`: a world under keys and prompts, and the same one again."""

from typing import Annotated

import typer

_WHAT, _HOW, _OUT, _MACHINE = "What to play", "How to make it", "Where it goes", "The machine"
_MODEL = typer.Option("--model", "-m", help="A bundled name, a folder, or a pulled hub id.")
_OUTPUT = typer.Option(
    "--output", "-o", help="File, folder/ for PNGs, or - for a pipe.", rich_help_panel=_OUT
)
_FORM = typer.Option("--format", "-f", help="mp4, y4m, rawvideo, nut, mjpeg or png.", rich_help_panel=_OUT)
_PIX = typer.Option(help="Pixel format to store, such as rgb24.", rich_help_panel=_OUT)
_SCALE = typer.Option(help="Repeat each pixel this many times.", rich_help_panel=_OUT)
_OVERWRITE = typer.Option("-y", help="Replace an existing output.", rich_help_panel=_OUT)
_KEEP = typer.Option("-n", help="Never replace an existing output.", rich_help_panel=_OUT)
_QUIET = typer.Option("--quiet", "-q", help="Only errors.", rich_help_panel=_OUT)
_DEVICE = typer.Option(help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_MACHINE)


def world(
    image: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="A picture to start from, which is the sink: a file, or one of the model's openings.",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", "-p", help="Words, - for standard input, or @FILE.", rich_help_panel=_WHAT),
    ] = None,
    actions: Annotated[
        str | None,
        typer.Option(
            help="w*8,d*4,w+space*2 in chunks, a .json log, or - for live keys on standard input.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    prompt_at: Annotated[
        list[str] | None,
        typer.Option(
            help='Another prompt from a time on, such as 5s:"rain"; repeatable.', rich_help_panel=_WHAT
        ),
    ] = None,
    switch: Annotated[
        str | None,
        typer.Option(help="What a new prompt renews: none, last, window or cut.", rich_help_panel=_WHAT),
    ] = None,
    over: Annotated[
        int, typer.Option(help="Chunks over which a new prompt is blended in.", rich_help_panel=_WHAT)
    ] = 1,
    chunks: Annotated[
        int | None,
        typer.Option(
            help="Chunks to make; else as long as the actions, or 0 for no end.", rich_help_panel=_WHAT
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Picture size.", rich_help_panel=_WHAT)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Repeats a world; drawn and said by default.", rich_help_panel=_WHAT)
    ] = None,
    model: Annotated[str, _MODEL] = "tiny-world",
    steps: Annotated[int | None, typer.Option(help="Denoising steps a chunk.", rich_help_panel=_HOW)] = None,
    window: Annotated[
        int | None, typer.Option(help="Last latent frames that are remembered.", rich_help_panel=_HOW)
    ] = None,
    sink: Annotated[
        int | None, typer.Option(help="First latent frames never forgotten.", rich_help_panel=_HOW)
    ] = None,
    pace: Annotated[
        str | None,
        typer.Option(help="live, smooth or file; live with live keys.", rich_help_panel=_HOW),
    ] = None,
    attention: Annotated[str, typer.Option(help="Attention kernel.", rich_help_panel=_MACHINE)] = "auto",
    dtype: Annotated[str | None, typer.Option(help="fp32 or bf16.", rich_help_panel=_MACHINE)] = None,
    device: Annotated[str | None, _DEVICE] = None,
    output: Annotated[str | None, _OUTPUT] = None,
    form: Annotated[str | None, _FORM] = None,
    pix_fmt: Annotated[str | None, _PIX] = None,
    scale: Annotated[int, _SCALE] = 1,
    overwrite: Annotated[bool, _OVERWRITE] = False,
    keep: Annotated[bool, _KEEP] = False,
    stats: Annotated[
        str | None, typer.Option(metavar="FILE.jsonl", help="One JSON line a chunk.", rich_help_panel=_OUT)
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print settings and memory as JSON, make nothing.", rich_help_panel=_OUT
        ),
    ] = False,
    quiet: Annotated[bool, _QUIET] = False,
) -> int:
    """Play a world: actions and prompts in, frames out; FILE.json beside the output replays it."""
    from streamgen.cli.run_world import dry, play
    from streamgen.cli.world_request import Asked, resolve

    asked = Asked(
        image, prompt, actions, tuple(prompt_at or ()), switch, over, chunks, size, seed, model, steps,
        window, sink, pace, attention, dtype, device, output, form, pix_fmt, scale, overwrite, keep, stats,
        dry_run, quiet,
    )  # fmt: skip
    wish = resolve(asked)
    return dry(wish) if dry_run else play(wish)


def replay(
    log: Annotated[str, typer.Argument(help="A control log, such as the .json beside a recording.")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Where the model lies now, if it moved.")
    ] = None,
    device: Annotated[str | None, _DEVICE] = None,
    output: Annotated[str | None, _OUTPUT] = None,
    form: Annotated[str | None, _FORM] = None,
    pix_fmt: Annotated[str | None, _PIX] = None,
    scale: Annotated[int, _SCALE] = 1,
    overwrite: Annotated[bool, _OVERWRITE] = False,
    quiet: Annotated[bool, _QUIET] = False,
) -> int:
    """Make a recorded world again, bit for bit on the same device."""
    from streamgen.cli.run_world import again
    from streamgen.cli.world_request import resolve_replay

    return again(resolve_replay(log, model, device, output, form, pix_fmt, scale, overwrite, quiet))
