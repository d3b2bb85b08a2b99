"""`streamgen models`: which checkpoints there are, whether they are sound, and how to get more."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgen.cli.facts import refuse_broken
from streamgen.errors import StreamgenError, UsageError

if TYPE_CHECKING:
    from streamgen.models.registry import Entry

app = typer.Typer(no_args_is_help=True, help="Checkpoints: list, verify, pull, convert.")

_AS_JSON = typer.Option("--json", help="JSON instead of a table.")


@app.command("list")
def list_models(as_json: Annotated[bool, _AS_JSON] = False) -> int:
    """List the checkpoints that streamgen knows by name."""
    rows = [_row(entry) for entry in _registry().values()]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    from streamgen.cli.table import show

    fields = ("name", "pipeline", "here", "licence", "size", "summary")
    columns = ("model", "pipeline", "here", "licence", "size", "what it is")
    show(columns, [[row[name] for name in fields] for row in rows], below="what it is")
    return 0


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones; all that are here by default.")
    ] = None,
) -> int:
    """Compare checkpoints with their registered SHA-256 sums."""
    from streamgen.cli.checksums import mismatches

    known = _registry()
    chosen = names or [name for name, entry in known.items() if entry.folder]
    faults: list[str] = []
    for name in chosen:
        entry = _entry(known, name)
        if entry.folder is None:
            how = f"`streamgen models pull {name}` fetches it" if entry.hub else "this installation lost it"
            raise UsageError(f"{name} is not here; {how}.")
        found = mismatches(entry.folder, entry.facts.get("files", {}))
        faults += [f"{name}: {fault}" for fault in found]
        print(f"{name}: {'sound' if not found else 'not as registered'}")
    if faults:
        raise StreamgenError(" ".join(faults))
    return 0


@app.command()
def pull(
    name: Annotated[str, typer.Argument(help="A registered name or a hub id such as owner/name.")],
) -> int:
    """Download a checkpoint from the hub; the only command that opens a connection."""
    from streamgen.models.registry import resolve

    print(resolve(name, download=True))
    return 0


@app.command()
def convert(
    source: Annotated[
        Path, typer.Argument(help="A published .safetensors or .pt file, or a folder of them.")
    ],
    target: Annotated[Path, typer.Argument(help="The checkpoint folder to write (the part) into.")],
    part: Annotated[
        str | None, typer.Option(help="transformer (as without it), vae or text_encoder.", show_default=False)
    ] = None,
    gqa: Annotated[
        int | None,
        typer.Option(help="Pool the key heads of a transformers model into so many.", show_default=False),
    ] = None,
    overwrite: Annotated[bool, typer.Option("-y", help="Replace what is there.")] = False,
) -> int:
    """Turn published weights into the layout of diffusers, or give a language model fewer key heads."""
    if part is not None and gqa is not None:
        raise UsageError("--part converts published weights and --gqa a language model; give one of them.")
    if (part or "transformer") not in ("transformer", "vae", "text_encoder"):
        raise UsageError(f"There is no part {part!r} to convert; choose transformer, vae or text_encoder.")
    if not source.exists():
        raise UsageError(f"There is nothing at {source} to convert.")
    refuse_broken(source)
    place = target if gqa is not None else target / (part or "transformer")
    if place.exists() and not overwrite:
        raise UsageError(f"{place} is there already; -y replaces it.")
    from streamgen.cli.conversion import convert_heads, convert_part, is_language_model

    if gqa is None and part is None and is_language_model(source):
        raise UsageError(f"{source} is a language model; --gqa G pools its key heads into G.")
    if gqa is not None:
        convert_heads(source, place, gqa)
    else:
        convert_part(source, part or "transformer", place)
    print(place)
    return 0


def _registry() -> "dict[str, Entry]":
    from streamgen.models.registry import registry

    return registry()


def _entry(known: "dict[str, Entry]", name: str) -> "Entry":
    if name not in known:
        raise UsageError(
            f"There is no model {name!r} in the registry; it knows {', '.join(known) or 'none'}."
        )
    return known[name]


def _row(entry: "Entry") -> dict[str, Any]:
    from streamgen.cli.checksums import listing

    folder = entry.folder
    nbytes = sum((folder / name).stat().st_size for name in listing(folder)) if folder else None
    return {
        "name": entry.name,
        "pipeline": entry.facts.get("pipeline", ""),
        "here": "bundled" if folder else f"on the hub: {entry.hub}" if entry.hub else "missing",
        "folder": str(folder) if folder else None,
        "licence": entry.facts.get("licence", ""),
        "bytes": nbytes,
        "size": "" if nbytes is None else f"{nbytes / 1e6:.1f} MB",
        "summary": entry.facts.get("summary", ""),
    }
