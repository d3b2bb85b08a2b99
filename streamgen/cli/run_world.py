"""Play a world that was asked for, or replay one, into a writer.

Shapes: T frames, H height, W width.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from streamgen import __version__
from streamgen.cli import backend
from streamgen.cli.interrupt import Interrupt
from streamgen.cli.live import LiveKeys
from streamgen.cli.output import reserved_stdout
from streamgen.cli.progress import StreamProgress
from streamgen.cli.say import say
from streamgen.cli.world_request import Place, ReplayWish, WorldWish
from streamgen.errors import UsageError
from streamgen.frames import Clip, describe, enlarge, open_writer
from streamgen.runtime.metrics import StreamMeter
from streamgen.runtime.pacing import Pacer

if TYPE_CHECKING:
    from streamgen.pipelines.world import Chunk, WorldPipeline, WorldSession
    from streamgen.pipelines.world_log import Event

DONE, INTERRUPTED = 0, 130


def play(wish: WorldWish) -> int:
    """Step the world until its actions end or somebody stops it; the log is written whatever happens."""
    place = wish.place
    pipeline = _pipeline(place)
    with backend.refusals(place.attention):
        session = pipeline.start(
            wish.prompt,
            wish.image,
            wish.seed,
            size=wish.size,
            steps=wish.steps,
            window=wish.window,
            sink=wish.sink,
            undo=1,
        )
    with session:
        try:
            done = _record(place, _events(session, wish), session.log.record())
        finally:
            if place.log is not None:
                session.log.save(place.log)
        if place.log is not None and place.output.form.name == "mp4":
            _remember(Path(place.output.target), session.log.record())
    return done


def _remember(recording: Path, record: dict[str, Any]) -> None:
    """Put the log into the recording as well, so that it alone can be played again."""
    words = json.dumps({**record, "streamgen": __version__}, ensure_ascii=False)
    describe(recording, {"comment": words})


def dry(wish: WorldWish) -> int:
    """Print the settled world and its memory as JSON."""
    backend.quieten_libraries()
    import torch

    from streamgen.cli.rehearsal import rehearse_world

    place = wish.place
    device = backend.pick_device(place.device)
    dtype = place.dtype or backend.usual_dtype(device)
    with backend.refusals(place.attention):
        settled = rehearse_world(wish, getattr(torch, dtype))
    asked = {"prompt": wish.prompt, "seed": wish.seed, "model": place.model, "fps": place.fps}
    machine = {"attention": place.attention, "dtype": dtype, "device": device}
    output = {"target": place.output.target, "format": place.output.form.name}
    record = {**asked, "chunks": wish.chunks, **settled, **machine, "output": output}
    print(json.dumps(record, indent=2, ensure_ascii=False))
    return DONE


def again(wish: ReplayWish) -> int:
    """The recorded chunks once more."""
    return _record(wish.place, _pipeline(wish.place).replay(wish.log), wish.log.record())


def _pipeline(place: Place) -> "WorldPipeline":
    backend.quieten_libraries()
    import torch

    from streamgen.pipelines.world import WorldPipeline

    device = backend.pick_device(place.device)
    dtype = None if place.dtype is None else getattr(torch, place.dtype)
    with backend.refusals(place.attention):
        return WorldPipeline.from_pretrained(
            place.model,
            device=device,
            dtype=dtype,
            attention=place.attention,
        )


def _events(session: "WorldSession", wish: WorldWish) -> Iterator["Chunk"]:
    """Chunks under the track or the live keys, with prompts at their times and the pace kept."""
    pacer, prompts = Pacer(wish.pace), dict(wish.prompts)
    fps, made = wish.place.fps, 0
    if session.opening is not None:
        pacer.show(1 / fps)
        yield session.opening
    with LiveKeys(session.parts.actions) if wish.track is None else nullcontext() as keys:
        track = iter(() if wish.track is None else wish.track)
        while wish.chunks is None or made < wish.chunks:
            pacer.ready()
            for at in [at for at in prompts if at <= session.moment.frame / fps]:
                _switch(session, prompts.pop(at), wish)
            chunk = _tracked(session, track, wish) if keys is None else _live(session, keys, wish)
            if chunk is None:
                return
            made += 1
            pacer.show(len(chunk.frames) / fps)
            yield chunk


def _live(session: "WorldSession", keys: LiveKeys, wish: WorldWish) -> "Chunk | None":
    """The next chunk under the keys; None where their source has ended."""
    if keys.ended and wish.chunks is None:
        return None
    actions, said, since = keys.take()
    for text in said:
        _switch(session, text, wish)
    return session.step(actions, since)


def _tracked(session: "WorldSession", track: Iterator["Event"], wish: WorldWish) -> "Chunk | None":
    """The next chunk of the track, after the prompts that stand before it; None at its end."""
    from streamgen.pipelines.world_prompt import Switch

    for event in track:
        if not isinstance(event, Switch):
            return session.step(event)
        _tell(session.set_prompt(event.prompt, event.mode, event.over, event.pin_sink), wish)
    return None


def _switch(session: "WorldSession", text: str, wish: WorldWish) -> None:
    _tell(session.set_prompt(text, wish.switch, wish.over), wish)  # type: ignore[arg-type]


def _tell(receipt: Any, wish: WorldWish) -> None:
    if not wish.place.quiet:
        say(
            f"prompt {receipt.number + 1} counts from chunk {receipt.chunk}, frame {receipt.frame} "
            f"({receipt.mode}, {receipt.forwards} forwards, {receipt.tokens} tokens)."
        )


def _record(place: Place, chunks: Iterator["Chunk"], facts: dict[str, Any]) -> int:
    meter = StreamMeter(place.fps, None)
    with (
        reserved_stdout() as stdout,
        _lines(place.stats) as lines,
        StreamProgress(meter, place.quiet) as progress,
        backend.kernel_named(place.attention),
    ):
        first = next(chunks, None)
        if first is None:
            raise UsageError("No chunk was asked for: the actions ended before the first one.")
        if not place.quiet:
            _, height, width, _ = first.frames.shape
            say(f"{place.model}, {width}x{height} at {place.fps:g} fps, seed {facts['seed']}.")
        with (
            open_writer(place.output.place(stdout), place.output.form, _clip(place, first, facts)) as writer,
            Interrupt(place.quiet) as stop,
        ):
            for chunk in chain([first], chunks):
                writer.write(enlarge(chunk.frames, place.output.scale))
                stages = {name: s for name, s in chunk.timing.items() if name != "input_to_frame"}
                meter.add(len(chunk.frames), stages)
                progress.update()
                if lines is not None:
                    record = {"chunk": chunk.index, "frames": len(chunk.frames), "seconds": chunk.timing}
                    print(json.dumps(record), file=lines, flush=True)
                if stop.asked:
                    return INTERRUPTED
    if not place.quiet:
        where = "standard output" if place.output.piped else place.output.target
        say(f"{where}: {meter.frames} frames in {meter.wall:.1f} s.")
    return DONE


def _lines(stats: str | None) -> AbstractContextManager[TextIO | None]:
    return nullcontext() if stats is None else Path(stats).open("w", encoding="utf-8")


def _clip(place: Place, first: "Chunk", facts: dict[str, Any]) -> Clip:
    _, height, width, _ = first.frames.shape
    about = {name: value for name, value in facts.items() if name not in ("events", "image")}
    return Clip(
        width=width * place.output.scale,
        height=height * place.output.scale,
        rate=Fraction(place.fps).limit_denominator(1001),
        pix_fmt=place.output.pix_fmt,
        metadata={"title": facts["prompt"], "comment": json.dumps({**about, "streamgen": __version__})},
    )
