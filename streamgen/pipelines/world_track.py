"""Actions written down: `w*8,d*4,w+space*2` as text, or events as JSON."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamgen.errors import UsageError
from streamgen.pipelines.world_keys import Actions, named
from streamgen.pipelines.world_log import Event, read_events, read_json

_STEP = re.compile(r"(?P<keys>.+?)(?:[*](?P<chunks>\d*)|-(?P<dashed>\d+))?")
_LONGEST = 10**6


@dataclass(frozen=True)
class Track:
    """Events in order; `rest` goes on after them for ever, None = the track ends."""

    events: tuple[Event, ...]
    rest: Actions | None = None

    @property
    def chunks(self) -> int:
        """Chunks before the track ends or rests."""
        return sum(isinstance(event, Actions) for event in self.events)

    def __iter__(self) -> Iterator[Event]:
        yield from self.events
        while self.rest is not None:
            yield self.rest


def read_track(text: str) -> Track:
    """A text track, or the name of a JSON file with events."""
    if text.endswith(".json"):
        record = read_json(text)
        entries = record.get("events") if isinstance(record, dict) else record
        return Track(tuple(read_events(entries, str(Path(text)))))
    if not text.strip():
        raise UsageError("The actions are empty; write something like w*8,d*4, or none*8 to stand still.")
    events: list[Event] = []
    steps = [step.strip() for step in text.split(",")]
    for number, step in enumerate(steps):
        actions, chunks = _step(step)
        if chunks is None:
            if number < len(steps) - 1:
                raise UsageError(f"{step!r} goes on for ever, so nothing can follow it; give it a number.")
            return Track(tuple(events), rest=actions)
        if len(events) + chunks > _LONGEST:
            raise UsageError(f"{step!r} is too long; a track has at most {_LONGEST} chunks.")
        events += [actions] * chunks
    return Track(tuple(events))


def _step(step: str) -> tuple[Actions, int | None]:
    match = (
        _STEP.fullmatch(step)
        if ":" not in step
        else re.fullmatch(r"(?P<keys>.+?)(?:\*(?P<chunks>\d*))?", step)
    )
    if match is None:
        raise UsageError(f"{step!r} is not KEYS or KEYS*CHUNKS, such as w+space*2.")
    parts = match.groupdict()
    count = parts["chunks"] if parts["chunks"] is not None else parts.get("dashed")
    if count == "":
        return named(parts["keys"]), None
    chunks = 1 if count is None else int(count)
    if chunks < 1:
        raise UsageError(f"{step!r} lasts no chunk; give at least 1.")
    return named(parts["keys"]), chunks
