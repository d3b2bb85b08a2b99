"""The control log: what was asked of a world, chunk by chunk; with the seed it gives the same frames."""

import base64
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image

from streamgen.errors import UsageError
from streamgen.pipelines.world_keys import Actions
from streamgen.pipelines.world_prompt import Switch

FORMAT = "streamgen-control-1"
Event = Actions | Switch  # Actions make one chunk


@dataclass(frozen=True)
class ControlLog:
    """How a world was started, and every event since."""

    start: dict[str, Any]
    events: list[Event] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """As JSON keeps it; the same actions for many chunks are one entry."""
        return {"format": FORMAT, **self.start, "events": list(_entries(self.events))}

    def save(self, path: str | Path) -> None:
        """Write the log."""
        Path(path).write_text(json.dumps(self.record(), indent=1, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def of(cls, record: dict[str, Any], source: str = "The log") -> "ControlLog":
        """From what `record` gives."""
        if record.get("format") != FORMAT:
            raise UsageError(f"{source} is no control log ({FORMAT}); record one with a world.")
        start = {name: value for name, value in record.items() if name not in ("format", "events")}
        return cls(start, read_events(record.get("events"), source))

    @classmethod
    def load(cls, path: str | Path) -> "ControlLog":
        """Read a log, or the sidecar of a recording."""
        return cls.of(read_json(path), str(path))


def read_json(path: str | Path) -> Any:
    """The JSON in a file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}.") from error


def read_events(entries: Any, source: str) -> list[Event]:
    """Actions and prompts in order."""
    if not isinstance(entries, list):
        raise UsageError(f"{source} has no list of events.")
    events: list[Event] = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not ({"actions", "prompt"} & entry.keys()):
            raise UsageError(f"Event {number} of {source} is {entry!r}; it has either actions or a prompt.")
        if "prompt" in entry:
            over, pin = int(entry.get("over", 1)), bool(entry.get("pin_sink", True))
            events.append(Switch.of(str(entry["prompt"]), entry.get("mode"), over, pin))
        else:
            chunks = entry.get("chunks", 1)
            if not isinstance(chunks, int) or chunks < 1:
                raise UsageError(f"Event {number} of {source} lasts {chunks!r} chunks; give at least 1.")
            events += [Actions.read(entry["actions"])] * chunks
    return events


def _entries(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    for event, run in groupby(events):
        for_ = len(list(run))
        if isinstance(event, Actions):
            yield {"actions": event.words, "chunks": for_}
            continue
        entry = {"prompt": event.prompt, "mode": event.mode, "over": event.over, "pin_sink": event.pin_sink}
        yield from [entry] * for_


def picture_words(image: Image.Image | None) -> str | None:
    """A picture inside JSON, bit for bit."""
    if image is None:
        return None
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def read_picture(words: str | None) -> Image.Image | None:
    """From what `picture_words` gives."""
    if words is None:
        return None
    return Image.open(io.BytesIO(base64.b64decode(words))).convert("RGB")
