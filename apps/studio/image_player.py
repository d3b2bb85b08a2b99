"""Pictures in a page, scale by scale; the next scale is computed when the page has shown the last one.

Shapes: B images, H height, W width.
"""

import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgen.errors import UsageError

from .picture_file import drawn_in, picture_in
from .player import Player
from .screen import Picture
from .uploads import upload_of
from .wire import Words

MOST = 16  # pictures in one grid
SEEDS = 2**31
OPTIONS = ("preset", "cfg", "top_k", "top_p", "more_smooth")
Pixels = NDArray[np.uint8]


class ImagePlayer(Player):
    """One batch at a time; a new order takes the place of what runs."""

    _previews: Iterator[Any] | None = None
    _made: Pixels | None = None  # the last batch that was finished, [B, H, W, 3]

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
            self._made = preview.images
            self.halt()

    def obey(self, words: Words) -> None:
        do = words["do"]
        if do == "stop":
            self.halt()
        elif do == "image":
            self._image(words)
        elif do == "edit":
            self._edit(words)
        else:
            raise UsageError(f"Pictures do not know {do!r}; they know image, edit and stop.")

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
        self._begin(self.slot.pipeline.stream(labels, seeds=seed, **options), seed)

    def _edit(self, words: Words) -> None:
        """Paint anew where the mask is light: a picture of the last batch, or one that the page brought."""
        variants = words.get("variants", 1)
        if not 1 <= variants <= MOST:
            raise UsageError(f"{variants} variants were asked for; a grid has 1 to {MOST} pictures.")
        seed = words.get("seed", secrets.randbelow(SEEDS))
        options = {name: words[name] for name in OPTIONS if name in words}
        previews = self.slot.pipeline.edit(
            self._given(words),
            drawn_in(words["mask"]),
            words.get("label") or None,
            seeds=range(seed, seed + variants),
            **options,
        )
        self._begin(previews, seed)

    def _given(self, words: Words) -> Any:
        """The picture to edit, as large as the model's."""
        if "upload" in words:
            from streamgen.pipelines.request import settle_image

            brought = picture_in(upload_of(self, words["upload"]).read_bytes())
            return settle_image(brought, self.slot.pipeline.size)
        number, made = words.get("picture", 0), self._made
        if made is None or not 0 <= number < len(made):
            there = 0 if made is None else len(made)
            raise UsageError(f"There is no picture {number} to edit; {there} are finished, counted from 0.")
        return made[number]

    def _begin(self, previews: Iterator[Any], seed: int) -> None:
        self.halt()
        self.screen.clear()
        self._previews = previews
        self.outbox.say("started", seed=seed)
