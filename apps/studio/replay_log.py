"""A control log that a page brought, checked before anything of it is computed or allocated."""

import base64
import binascii
import io
import math
from dataclasses import dataclass
from typing import Any

from PIL import Image

from streamgen.errors import UsageError
from streamgen.pipelines.world_keys import Actions
from streamgen.pipelines.world_log import ControlLog, Event

from .recording import SEEN
from .wire import Words

CHUNKS = 100_000  # of one recording; three and a half hours of tiny-world
TIMES = 4  # a recording may be so many times as large, remember so much and take so many steps as its model


@dataclass(frozen=True)
class Tape:
    """A log that can be played on a pipeline of this studio."""

    log: ControlLog
    events: tuple[Event, ...]  # Actions make one chunk
    seen: dict[int, str]  # the digests of chunks that were recorded, by their first frame

    @property
    def chunks(self) -> int:
        return sum(isinstance(event, Actions) for event in self.events)

    @property
    def timeline(self) -> list[Words]:
        """What was asked from which chunk on: keys that were held for some chunks, and prompts."""
        entries: list[Words] = []
        chunk = 0
        for event in self.events:
            if not isinstance(event, Actions):
                entries.append({"chunk": chunk, "prompt": event.prompt, "mode": event.mode})
                continue
            keys = sorted(event.keys)
            if entries and entries[-1].get("keys") == keys:
                entries[-1]["chunks"] += 1
            else:
                entries.append({"chunk": chunk, "keys": keys, "chunks": 1})
            chunk += 1
        return entries


def tape_of(record: dict[str, Any], pipeline: Any) -> Tape:
    """The log as this pipeline can play it, or a sentence why it cannot."""
    settings = pipeline.parts.video.settings
    try:
        _bounded(record, settings)
        log = ControlLog.of(record)
        seen = {int(frame): str(words) for frame, words in record.get(SEEN, {}).items()}
    except UsageError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise UsageError(f"This control log is damaged: {error}.") from error
    for event in log.events:
        if isinstance(event, Actions):
            pipeline.parts.actions.check(event)
    return Tape(log, tuple(log.events), seen)


def differs(record: dict[str, Any], pipeline: Any) -> str:
    """Why the frames may differ in their last bits here; "" where they cannot."""
    here = pipeline.parts.words()
    other = [name for name in ("attention", "dtype", "device") if record.get(name) != here[name]]
    if not other:
        return ""
    pairs = ", ".join(f"{name} {record.get(name)} there and {here[name]} here" for name in other)
    return f"It was recorded elsewhere ({pairs}), so frames may differ in their last bits."


def _bounded(record: dict[str, Any], settings: Any) -> None:
    """A log is a stranger's words: it may not ask for more than a session of this model would take."""
    width, height = (int(side) for side in record["size"])
    held = int(record["window"]) + int(record["sink"])
    own = settings.size[0] * settings.size[1]
    if not 0 < width * height <= TIMES * own or width < 1:
        raise UsageError(f"The recording is {width}x{height}; this studio plays up to {TIMES * own} pixels.")
    most = TIMES * (settings.window + settings.sink)
    if not 0 < held <= most:
        raise UsageError(f"The recording remembers {held} latent frames; this studio takes up to {most}.")
    steps = [float(step) for step in record["steps"]]
    if not 0 < len(steps) <= TIMES * len(settings.steps) or not all(map(math.isfinite, steps)):
        raise UsageError(
            f"The recording takes {len(steps)} steps; this studio up to {TIMES * len(settings.steps)}."
        )
    chunks = sum(entry.get("chunks", 1) for entry in record["events"] if "actions" in entry)
    if not 0 < chunks <= CHUNKS or len(record["events"]) > CHUNKS:
        raise UsageError(f"The recording lasts {chunks} chunks; this studio plays 1 to {CHUNKS}.")
    if record.get("image") is not None:
        _same_size(record["image"], (width, height))


def _same_size(words: str, size: tuple[int, int]) -> None:
    try:
        with Image.open(io.BytesIO(base64.b64decode(words)), formats=("PNG",)) as image:
            found = image.size
    except (OSError, binascii.Error, Image.DecompressionBombError) as error:
        raise UsageError("The start picture in this control log is damaged.") from error
    if found != size:
        raise UsageError(f"The start picture is {found[0]}x{found[1]} and the recording {size[0]}x{size[1]}.")
