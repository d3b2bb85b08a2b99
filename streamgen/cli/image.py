"""`streamgen image`: classes in, a sheet of pictures out."""

from typing import Annotated

import typer

_WHAT, _HOW, _OUT, _MACHINE = "What to show", "How to make it", "Where it goes", "The machine"


def image(
    labels: Annotated[
        list[str] | None,
        typer.Argument(show_default=False, help="Class names or numbers; 'none' for no class."),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-c", help="Pictures of each label.", rich_help_panel=_WHAT)
    ] = 1,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Of the first picture, the others count up; drawn by default.", rich_help_panel=_WHAT
        ),
    ] = None,
    edit: Annotated[
        str | None,
        typer.Option(
            metavar="PICTURE", help="Paint in this picture instead; needs --mask.", rich_help_panel=_WHAT
        ),
    ] = None,
    mask: Annotated[
        str | None, typer.Option(metavar="PICTURE", help="White where --edit paints.", rich_help_panel=_WHAT)
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="A bundled name, a folder or a VAR file.", rich_help_panel=_HOW),
    ] = "tiny-var",
    vae: Annotated[
        str | None, typer.Option(help="The VQ-VAE, where it is not beside the model.", rich_help_panel=_HOW)
    ] = None,
    preset: Annotated[
        str, typer.Option(help="demo for looks, fid for scores.", rich_help_panel=_HOW)
    ] = "demo",
    cfg: Annotated[float | None, typer.Option(help="Guidance; 0 is none.", rich_help_panel=_HOW)] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Likeliest codes kept; 0 is all.", rich_help_panel=_HOW)
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Share of them kept; 0 is all.", rich_help_panel=_HOW)
    ] = None,
    more_smooth: Annotated[
        bool | None,
        typer.Option("--more-smooth/--no-more-smooth", help="Mix codes softly.", rich_help_panel=_HOW),
    ] = None,
    attention: Annotated[
        str, typer.Option(help="Attention kernel; see `streamgen kernels`.", rich_help_panel=_MACHINE)
    ] = "auto",
    dtype: Annotated[str | None, typer.Option(help="fp32 or bf16.", rich_help_panel=_MACHINE)] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_MACHINE)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="A .png, .jpg, .webp or .gif, or - for a PNG pipe.", rich_help_panel=_OUT
        ),
    ] = None,
    preview_scales: Annotated[
        bool,
        typer.Option(
            "--preview-scales",
            help="Show every scale: a row each, or an animation into .gif and .webp.",
            rich_help_panel=_OUT,
        ),
    ] = False,
    scale: Annotated[int, typer.Option(help="Repeat each pixel this many times.", rich_help_panel=_OUT)] = 1,
    overwrite: Annotated[
        bool, typer.Option("-y", help="Replace an existing output.", rich_help_panel=_OUT)
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print settings and memory as JSON, make nothing.", rich_help_panel=_OUT
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.", rich_help_panel=_OUT)] = False,
) -> int:
    """Make pictures of classes, scale by scale, or paint in a given one."""
    from streamgen.cli.image_request import ImageAsked, settle
    from streamgen.cli.image_run import dry, make

    wish = settle(
        ImageAsked(
            labels=tuple(labels or ()),
            count=count,
            seed=seed,
            edit=edit,
            mask=mask,
            model=model,
            vae=vae,
            preset=preset,
            cfg=cfg,
            top_k=top_k,
            top_p=top_p,
            more_smooth=more_smooth,
            attention=attention,
            dtype=dtype,
            device=device,
            output=output,
            preview_scales=preview_scales,
            scale=scale,
            overwrite=overwrite,
            dry_run=dry_run,
            quiet=quiet,
        )
    )
    return dry(wish) if dry_run else make(wish)
