"""What `streamgen world` and `replay` were asked, checked and settled before anything heavy is imported."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from streamgen.cli import backend
from streamgen.cli.output import Output, check_writable, choose_output
from streamgen.cli.prompts import read_prompt, read_schedule
from streamgen.cli.request import check_least, parse_device, parse_dtype, parse_size
from streamgen.cli.streams import standard_input
from streamgen.errors import UsageError
from streamgen.runtime.pacing import POLICIES, Policy

if TYPE_CHECKING:
    from streamgen.pipelines.world_log import ControlLog
    from streamgen.pipelines.world_settings import WorldSettings
    from streamgen.pipelines.world_track import Track

LIVE = "-"


@dataclass(frozen=True)
class Asked:
    """The command line as it was typed."""

    image: str | None
    prompt: str | None
    actions: str | None
    prompt_at: tuple[str, ...]
    switch: str | None
    over: int
    chunks: int | None
    size: str | None
    seed: int | None
    model: str
    steps: int | None
    window: int | None
    sink: int | None
    pace: str | None
    attention: str
    dtype: str | None
    device: str | None
    output: str | None
    form: str | None
    pix_fmt: str | None
    scale: int
    overwrite: bool
    keep: bool
    stats: str | None
    dry_run: bool
    quiet: bool


@dataclass(frozen=True)
class Place:
    """What any run needs: the model, the machine, and where the frames go."""

    model: str
    folder: Path
    fps: float
    attention: str
    dtype: str | None
    device: str | None
    output: Output
    log: Path | None  # where the control log is written
    stats: str | None
    quiet: bool


@dataclass(frozen=True)
class WorldWish:
    """A world that can be played."""

    place: Place
    prompt: str
    prompts: dict[float, str]
    switch: str | None
    over: int
    image: Image.Image | None
    track: "Track | None"  # None: live keys
    chunks: int | None  # None never ends
    size: tuple[int, int] | None
    seed: int
    steps: int | None
    window: int | None
    sink: int | None
    pace: Policy


@dataclass(frozen=True)
class ReplayWish:
    """A log that can be replayed."""

    place: Place
    log: "ControlLog"


def resolve(asked: Asked) -> WorldWish:
    """Check everything that can be checked without computing, cheapest first."""
    from streamgen.pipelines.world_prompt import Switch

    live = asked.actions == LIVE
    if live and asked.prompt == "-":
        raise UsageError("--prompt - and --actions - both read standard input; give one of them in words.")
    if live:
        standard_input()
    prompt = read_prompt(asked.prompt)
    Switch.of(prompt, asked.switch, asked.over, True)  # type: ignore[arg-type]
    check_least("--seed", asked.seed, 0)
    track = None if live else _track(asked.actions)
    chunks = _chunks(asked.chunks, track)
    pace = _pace(asked.pace, live)
    dtype, device, size = parse_dtype(asked.dtype), parse_device(asked.device), parse_size(asked.size)
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    output = choose_output(asked.output or f"world-{seed}.mp4", asked.form, asked.pix_fmt, asked.scale)
    folder = backend.folder_of(asked.model)
    image = None if asked.image is None else _image(asked.image, folder)
    settings = _settings(folder)
    _check_actions(track, settings)
    log = None if asked.dry_run else _sidecar(output, asked.overwrite, asked.keep)
    place = Place(
        asked.model, folder, settings.video.fps, asked.attention, dtype, device, output, log, asked.stats,
        asked.quiet,
    )  # fmt: skip
    prompts = read_schedule(list(asked.prompt_at), None)
    return WorldWish(
        place, prompt, prompts, asked.switch, asked.over, image, track, chunks, size, seed, asked.steps,
        asked.window, asked.sink, pace,
    )  # fmt: skip


def resolve_replay(
    log: str,
    model: str | None,
    device: str | None,
    target: str | None,
    form: str | None,
    pix_fmt: str | None,
    scale: int,
    overwrite: bool,
    quiet: bool,
) -> ReplayWish:
    """Check a log and where its frames go."""
    from streamgen.pipelines.world_log import ControlLog

    recorded = ControlLog.load(log)
    lacking = [name for name in ("model", "attention", "dtype", "device") if name not in recorded.start]
    if lacking:
        raise UsageError(
            f"{log} lacks {', '.join(lacking)}; only a log that a session wrote can be replayed."
        )
    name = model or str(recorded.start["model"])
    output = choose_output(target or f"{Path(log).stem}-again.mp4", form, pix_fmt, scale)
    check_writable(output, overwrite, keep=False)
    folder = backend.folder_of(name)
    start = recorded.start
    place = Place(
        name, folder, _settings(folder).video.fps, str(start["attention"]), str(start["dtype"]),
        parse_device(device or str(start["device"])), output, None, None, quiet,
    )  # fmt: skip
    return ReplayWish(place, recorded)


def _settings(folder: Path) -> "WorldSettings":
    from streamgen.pipelines.world_settings import WorldSettings

    return WorldSettings.load(folder)


def _track(actions: str | None) -> "Track":
    from streamgen.pipelines.world_keys import IDLE
    from streamgen.pipelines.world_track import Track, read_track

    return Track((), rest=IDLE) if actions is None else read_track(actions)


def _check_actions(track: "Track | None", settings: "WorldSettings") -> None:
    from streamgen.pipelines.world_keys import Actions

    for event in () if track is None else {*track.events, track.rest}:
        if isinstance(event, Actions):
            settings.actions.check(event)


def _chunks(asked: int | None, track: "Track | None") -> int | None:
    if asked is not None and asked < 0:
        raise UsageError(f"--chunks {asked} is less than nothing; give a number, or 0 for no end.")
    if track is None:
        return asked or None
    if asked is None:
        if track.rest is not None and not track.events:
            return 16
        return None if track.rest is not None else track.chunks
    if track.rest is None and (asked == 0 or asked > track.chunks):
        raise UsageError(f"The actions last {track.chunks} chunks; let the last one go on with KEYS*.")
    return asked or None


def _pace(asked: str | None, live: bool) -> Policy:
    chosen = asked or ("live" if live else "file")
    for policy in POLICIES:
        if policy == chosen:
            return policy
    raise UsageError(f"There is no --pace {chosen}; choose one of {', '.join(POLICIES)}.")


def _image(asked: str, folder: Path) -> Image.Image:
    from streamgen.pipelines.world_settings import openings

    named = openings(folder)
    path = Path(asked) if Path(asked).is_file() else named.get(asked, Path(asked))
    try:
        return Image.open(path).convert("RGB")
    except OSError as error:
        choice = f", or one of the model's openings: {', '.join(named)}" if named else ""
        raise UsageError(
            f"The picture {asked} cannot be read; give a PNG, JPEG or WebP file{choice}."
        ) from error


def _sidecar(output: Output, overwrite: bool, keep: bool) -> Path | None:
    check_writable(output, overwrite, keep)
    if output.piped:
        return None
    path = Path(output.target.rstrip("/") + ".json")
    if path.is_file() and not overwrite:
        raise UsageError(f"The control log {path} is there already; -y replaces it.")
    return path
