"""Pictures in a page, scale by scale; the next scale is computed when the page has shown the last one.

Shapes: B images, H height, W width.
"""

import secrets
from collections.abc import Iterator
from typing import Any

from streamgen.errors import UsageError

from .player import Player
from .screen import Picture
from .wire import Words

MOST = 16  # pictures in one grid
SEEDS = 2**31
OPTIONS = ("preset", "cfg", "top_k", "top_p", "more_smooth")


class ImagePlayer(Player):
    """One batch at a time; a new order takes the place of what runs."""

    _previews: Iterator[Any] | None = None

    def wants(self, now: float) -> float | None:
        return None if self._previews is None or self.screen.waiting else now

    def work(self) -> None:
        """One scale of the batch [B, H, W, 3]."""
        assert self._previews is not None, "wants() was asked"
        preview = next(self._previews)
        classes = self.slot.pipeline.settings.classes
        facts = {
            "scale": preview.index,
            "patches": list(preview.patches),
            "labels": [classes.name(label) for label in preview.labels],
            "seeds": list(preview.seeds),
            "ms": round(1000 * preview.seconds),
            "last": preview.last,
        }
        self.screen.put([Picture(tuple(preview.images), facts)])
        if preview.last:
            self.halt()

    def obey(self, words: Words) -> None:
        do = words["do"]
        if do == "stop":
            self.halt()
        elif do == "image":
            self._image(words)
        else:
            raise UsageError(f"Pictures do not know {do!r}; they know image and stop.")

    def halt(self) -> None:
        previews, self._previews = self._previews, None
        if previews is not None:
            previews.close()  # type: ignore[attr-defined]  # a generator, which gives its pages back
            self.outbox.say("stopped")

    def record(self) -> dict[str, Any]:
        return {"session": self.key[:6], "tab": self.slot.tab, "model": self.slot.name, "pools": []}

    def _image(self, words: Words) -> None:
        labels = words.get("labels", [None])
        if len(labels) > MOST:
            raise UsageError(f"{len(labels)} pictures were asked for and a grid has at most {MOST}.")
        seed = words.get("seed", secrets.randbelow(SEEDS))
        options = {name: words[name] for name in OPTIONS if name in words}
        previews = self.slot.pipeline.stream(labels, seeds=seed, **options)
        self.halt()
        self.screen.clear()
        self._previews = previews
        self.outbox.say("started", seed=seed)
