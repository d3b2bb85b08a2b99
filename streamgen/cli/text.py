"""`streamgen text`: prompts in, text out as it is decided."""

from typing import Annotated

import typer

_WHAT, _HOW, _OUT, _MACHINE = "What to write", "How to choose tokens", "Where it goes", "The machine"


def text(
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            show_default=False, help="Texts to go on from; - for standard input, @FILE for a file."
        ),
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A prompt a line; - for standard input.", rich_help_panel=_WHAT),
    ] = None,
    ids: Annotated[
        bool,
        typer.Option("--ids", help="Prompts and texts are token numbers: 5,17,2.", rich_help_panel=_WHAT),
    ] = False,
    max_tokens: Annotated[
        int,
        typer.Option("--max-tokens", "-n", help="The most new tokens of each text.", rich_help_panel=_WHAT),
    ] = 128,
    ignore_stop: Annotated[
        bool, typer.Option("--ignore-stop", help="Write on after a stop token.", rich_help_panel=_WHAT)
    ] = False,
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="A bundled name, a folder, or a hub id.", rich_help_panel=_HOW),
    ] = "tiny-lm",
    draft: Annotated[
        list[str] | None,
        typer.Option(help="A smaller model that proposes; may be given twice.", rich_help_panel=_HOW),
    ] = None,
    widths: Annotated[
        str, typer.Option(help="Children a draft proposes at each depth.", rich_help_panel=_HOW)
    ] = "2,1,1",
    drawn: Annotated[
        bool, typer.Option("--drawn", help="A draft draws its children by chance.", rich_help_panel=_HOW)
    ] = False,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", help="0 takes the likeliest.", rich_help_panel=_HOW)
    ] = 0.0,
    top_k: Annotated[int, typer.Option(help="Likeliest tokens kept; 0 is all.", rich_help_panel=_HOW)] = 0,
    top_p: Annotated[float, typer.Option(help="Share of them kept; 0 is all.", rich_help_panel=_HOW)] = 0.0,
    seed: Annotated[
        int | None, typer.Option(help="Of the chance; drawn by default, and said.", rich_help_panel=_HOW)
    ] = None,
    samples: Annotated[int, typer.Option(help="Texts of each prompt.", rich_help_panel=_HOW)] = 1,
    beams: Annotated[int, typer.Option(help="Beams of each prompt.", rich_help_panel=_HOW)] = 1,
    length_penalty: Annotated[float, typer.Option(help="Of beams.", rich_help_panel=_HOW)] = 1.0,
    window: Annotated[
        int | None,
        typer.Option(help="Tokens that every layer sees; the model's by default.", rich_help_panel=_MACHINE),
    ] = None,
    tokens: Annotated[int, typer.Option(help="Room of the memory.", rich_help_panel=_MACHINE)] = 16384,
    texts: Annotated[int, typer.Option(help="Texts at once, at most.", rich_help_panel=_MACHINE)] = 16,
    attention: Annotated[
        str, typer.Option(help="Attention kernel; see `streamgen kernels`.", rich_help_panel=_MACHINE)
    ] = "auto",
    dtype: Annotated[str | None, typer.Option(help="fp32 or bf16.", rich_help_panel=_MACHINE)] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 or mps.", rich_help_panel=_MACHINE)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON line for each piece of text.", rich_help_panel=_OUT)
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print settings and memory as JSON, write nothing.", rich_help_panel=_OUT
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.", rich_help_panel=_OUT)] = False,
) -> int:
    """Go on from prompts: one text as it comes, several one after the other."""
    from streamgen.cli.text_request import TextAsked, settle
    from streamgen.cli.text_run import dry, write

    wish = settle(
        TextAsked(
            prompts=tuple(prompts or ()),
            lines=lines,
            ids=ids,
            max_tokens=max_tokens,
            ignore_stop=ignore_stop,
            model=model,
            drafts=tuple(draft or ()),
            widths=widths,
            drawn=drawn,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            samples=samples,
            beams=beams,
            length_penalty=length_penalty,
            window=window,
            tokens=tokens,
            texts=texts,
            attention=attention,
            dtype=dtype,
            device=device,
            as_json=as_json,
            quiet=quiet,
        )
    )
    return dry(wish) if dry_run else write(wish)
