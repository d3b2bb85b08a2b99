"""`streamgen bench`: numbers with what they include, measured side by side in one run."""

from importlib import import_module
from typing import Annotated

import typer

from streamgen.errors import UsageError

app = typer.Typer(
    no_args_is_help=True,
    help="Measure: where a video's time goes, a picture, memories, and the cache beside its alternatives.",
)

_JSON = typer.Option("--json", help="JSON instead of tables.")
_DTYPE = typer.Option(help="fp32, bf16 or both.")


@app.command("video")
def bench_video(
    model: Annotated[str, typer.Option("--model", "-m", help="A bundled name or a folder.")] = "tiny-video",
    seconds: Annotated[float, typer.Option(help="Length of each timed stream.")] = 4.0,
    dtype: Annotated[str, _DTYPE] = "both",
    attention: Annotated[str, typer.Option(help="Attention kernel.")] = "auto",
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Split a video's time into text, DiT, cache, VAE and encoding, cold and warm, beside the GEMM peak."""
    _check(dtype)
    if not 0 < seconds < 3600:
        raise UsageError(
            f"--seconds {seconds:g} is no length to measure; give more than 0 and less than an hour."
        )
    _run("video", as_json, dtype=dtype, model=_folder(model), seconds=seconds, attention=attention)


@app.command("cache")
def bench_cache(dtype: Annotated[str, _DTYPE] = "both", as_json: Annotated[bool, _JSON] = False) -> None:
    """Compare the ring with rolling by copy, concatenation, and clone-and-edit."""
    _check(dtype)
    _run("cache", as_json, dtype=dtype)


@app.command("image")
def bench_image(
    dtype: Annotated[str, _DTYPE] = "both",
    size: Annotated[str, typer.Option(help="d16, or tiny for a look at the command.")] = "d16",
    rounds: Annotated[int, typer.Option(help="Timed pictures of each kind; the median counts.")] = 3,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Compare a picture with a straightforward implementation of VAR, and with its products alone."""
    _check(dtype)
    if size not in ("d16", "tiny") or rounds < 1:
        raise UsageError(
            f"--size {size} --rounds {rounds} measures nothing; choose d16 or tiny, and 1 or more."
        )
    _run("image", as_json, dtype=dtype, size=size, rounds=rounds)


@app.command("world")
def bench_world(
    model: Annotated[str, typer.Option("--model", "-m", help="A bundled name or a folder.")] = "tiny-world",
    chunks: Annotated[int, typer.Option(help="Timed chunks of each kind; the median counts.")] = 20,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Time a world's chunks, switches, forks, undo and files beside a world that re-encodes its history."""
    if chunks < 1:
        raise UsageError(f"--chunks {chunks} measures nothing; give 1 or more.")
    _run("world", as_json, model=_folder(model), chunks=chunks)


@app.command("ask")
def bench_ask(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A bundled name or a folder; random weights, or tiny-vlm for --accuracy and --minutes.",
        ),
    ] = None,
    size: Annotated[
        str, typer.Option(help="Of the random weights: mid, wide (more weights, a shorter past) or tiny.")
    ] = "mid",
    budget: Annotated[
        int | None,
        typer.Option(
            help="Video tokens a layer keeps; the model's by default, a quarter and a half for --accuracy."
        ),
    ] = None,
    beyond: Annotated[int, typer.Option(help="Chunks that come when the budget is full.")] = 20,
    dtype: Annotated[str, _DTYPE] = "fp32",
    accuracy: Annotated[
        bool, typer.Option("--accuracy", help="How often each memory is right, instead of how fast it is.")
    ] = False,
    stories: Annotated[
        int, typer.Option(help="For --accuracy: stories of each length, 8 questions each.")
    ] = 50,
    frames: Annotated[
        list[int] | None, typer.Option(help="For --accuracy: frames of a story; 48 and 72 by default.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Watch so long with hermes alone: does anything grow?")
    ] = None,
    attention: Annotated[str, typer.Option(help="Attention kernel.")] = "auto",
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Compare memories of a watched video: times of a chunk and a first token, bytes, tokens; or accuracy."""
    _one_measurement(context, accuracy, minutes is not None)
    if accuracy:
        _accuracy(model or "tiny-vlm", budget, stories, frames or [48, 72], attention, as_json)
        return
    if minutes is not None:
        _long(model or "tiny-vlm", budget, minutes, attention, as_json)
        return
    _check(dtype)
    if size not in ("mid", "wide", "tiny") or beyond < 3 or (budget is not None and budget < 1):
        raise UsageError(
            f"--size {size} --beyond {beyond} --budget {budget} measures nothing; choose mid, "
            "wide or tiny, 3 chunks or more, and a budget of at least a chunk's tokens."
        )
    _run(
        "ask",
        as_json,
        model=None if model is None else _folder(model),
        size=size,
        dtype=dtype,
        budget=budget,
        beyond=beyond,
        attention=attention,
    )


def _one_measurement(context: typer.Context, accuracy: bool, long: bool) -> None:
    """Refuse options of one measurement where another was asked for."""
    if accuracy and long:
        raise UsageError("--accuracy and --minutes are two measurements; leave one of them out.")
    ours = {"accuracy": ("stories", "frames"), "side by side": ("size", "beyond", "dtype")}
    chosen = "accuracy" if accuracy else "minutes" if long else "side by side"
    for kind, names in ours.items():
        sources = {name: context.get_parameter_source(name) for name in names if kind != chosen}
        given = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
        if given and kind == "accuracy":
            raise UsageError(f"--{given[0]} has no meaning without --accuracy; give --accuracy, too.")
        if given:
            raise UsageError(f"--{given[0]} has no meaning with --{chosen}; leave one of them out.")


def _long(model: str, budget: int | None, minutes: float, attention: str, as_json: bool) -> None:
    if not 1 <= minutes <= 24 * 60 or (budget is not None and budget < 2):
        raise UsageError(
            f"--minutes {minutes:g} --budget {budget} measures nothing; give 1 minute to a day, and a budget "
            "of at least a chunk's tokens."
        )
    _folder(model)
    _run("ask_long", as_json, model=model, minutes=minutes, budget=budget, attention=attention)


def _accuracy(
    model: str, budget: int | None, stories: int, frames: list[int], attention: str, as_json: bool
) -> None:
    if stories < 1 or min(frames) < 16 or (budget is not None and budget < 1):
        raise UsageError(
            f"--stories {stories} --frames {min(frames)} --budget {budget} measures nothing; give 1 story or "
            "more, of 16 frames or more, and a budget of at least a chunk's tokens."
        )
    _folder(model)
    _run(
        "accuracy",
        as_json,
        model=model,
        frames=frames,
        stories=stories,
        budget=budget,
        attention=attention,
    )


@app.command("text")
def bench_text(
    part: Annotated[str, typer.Option(help="all, speed or sharing.")] = "all",
    size: Annotated[str, typer.Option(help="Of the random weights: mid, or tiny for a look.")] = "mid",
    rounds: Annotated[int, typer.Option(help="Timed rounds; the median counts.")] = 3,
    page_size: Annotated[int, typer.Option(help="Tokens of a page where sharing is measured.")] = 4,
    first: Annotated[float, typer.Option(help="Objective: seconds to the first token.")] = 10.0,
    gap: Annotated[float, typer.Option(help="Objective: seconds between later tokens.")] = 1.0,
    attention: Annotated[str, typer.Option(help="Attention kernel.")] = "auto",
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Compare texts with transformers' caches, with and without a draft; measure sharing and waiting."""
    if part not in ("all", "speed", "sharing") or size not in ("mid", "tiny") or min(rounds, page_size) < 1:
        raise UsageError(
            f"--part {part} --size {size} --rounds {rounds} --page-size {page_size} measures nothing; choose "
            "all, speed or sharing, mid or tiny, and 1 or more."
        )
    from streamgen.runtime.latency import Objective

    _run(
        "text",
        as_json,
        size=size,
        rounds=rounds,
        page_size=page_size,
        attention=attention,
        objective=Objective(first, gap),
        part=part,
    )


def _run(program: str, as_json: bool, **options: object) -> None:
    """A program of `apps/bench`; what it needs is imported only now."""
    from streamgen.cli import backend

    backend.quieten_libraries()
    with backend.kernel_named(str(options.get("attention", "auto"))):
        import_module(f"streamgen_apps.bench.{program}").run(json_output=as_json, **options)


def _folder(model: str) -> str:
    """Where it lies; refused where it is not, or cannot be read."""
    from streamgen.cli import backend

    return str(backend.folder_of(model))


def _check(dtype: str) -> None:
    if dtype not in ("fp32", "bf16", "both"):
        raise UsageError(f"There is no dtype {dtype!r} to measure; choose fp32, bf16 or both.")
