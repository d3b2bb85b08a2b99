"""`streamgen video`: a prompt in, frames out."""

from typing import Annotated

import typer

_WHAT, _HOW, _OUT, _MACHINE = "What to show", "How to make it", "Where it goes", "The machine"


def video(
    prompt: Annotated[
        str | None, typer.Argument(show_default=False, help="Words, - for standard input, or @FILE.")
    ] = None,
    prompt_at: Annotated[
        list[str] | None,
        typer.Option(
            help='Another prompt from a time on, such as 5s:"rain at night"; repeatable.',
            rich_help_panel=_WHAT,
        ),
    ] = None,
    frames: Annotated[
        int | None, typer.Option(help="Frames to make; 0 never ends.", rich_help_panel=_WHAT)
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Length in seconds instead; 4 where neither is given.", rich_help_panel=_WHAT),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="WxH", help="Picture size; the model's own by default.", rich_help_panel=_WHAT),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Repeats a video; drawn and said by default.", rich_help_panel=_WHAT)
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="A bundled name, a folder, or a pulled hub id.", rich_help_panel=_HOW
        ),
    ] = "tiny-video",
    steps: Annotated[int | None, typer.Option(help="Denoising steps a chunk.", rich_help_panel=_HOW)] = None,
    window: Annotated[
        int | None,
        typer.Option(help="Last latent frames that are remembered.", rich_help_panel=_HOW),
    ] = None,
    sink: Annotated[
        int | None,
        typer.Option(help="First latent frames that are never forgotten, besides.", rich_help_panel=_HOW),
    ] = None,
    attention: Annotated[
        str, typer.Option(help="Attention kernel; see `streamgen kernels`.", rich_help_panel=_MACHINE)
    ] = "auto",
    dtype: Annotated[
        str | None,
        typer.Option(help="fp32 or bf16; fp32 on a CPU and bf16 elsewhere.", rich_help_panel=_MACHINE),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, cuda:1 or mps; a GPU where there is one.", rich_help_panel=_MACHINE),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File, folder/ for PNGs, or - for a pipe.", rich_help_panel=_OUT),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="mp4, y4m, rawvideo, nut, mjpeg or png; else by extension.",
            rich_help_panel=_OUT,
        ),
    ] = None,
    pix_fmt: Annotated[
        str | None, typer.Option(help="Pixel format to store, such as rgb24.", rich_help_panel=_OUT)
    ] = None,
    scale: Annotated[int, typer.Option(help="Repeat each pixel this many times.", rich_help_panel=_OUT)] = 1,
    overwrite: Annotated[
        bool, typer.Option("-y", help="Replace an existing output.", rich_help_panel=_OUT)
    ] = False,
    keep: Annotated[
        bool, typer.Option("-n", help="Never replace an existing output.", rich_help_panel=_OUT)
    ] = False,
    stats: Annotated[
        str | None, typer.Option(metavar="FILE.jsonl", help="One JSON line a chunk.", rich_help_panel=_OUT)
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print settings and memory as JSON, make nothing.", rich_help_panel=_OUT
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.", rich_help_panel=_OUT)] = False,
) -> int:
    """Make a video from a prompt, chunk by chunk."""
    from streamgen.cli.request import Asked, resolve
    from streamgen.cli.run_video import dry, make

    request = resolve(
        Asked(
            prompt=prompt,
            prompt_at=tuple(prompt_at or ()),
            frames=frames,
            seconds=seconds,
            size=size,
            seed=seed,
            model=model,
            steps=steps,
            window=window,
            sink=sink,
            attention=attention,
            dtype=dtype,
            device=device,
            output=output,
            form=form,
            pix_fmt=pix_fmt,
            scale=scale,
            overwrite=overwrite,
            keep=keep,
            stats=stats,
            dry_run=dry_run,
            quiet=quiet,
        )
    )
    return dry(request) if dry_run else make(request)
