"""What an image checkpoint says of itself, and how its tokens are chosen. Nothing heavy is imported here."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamgen.asked import real, whole
from streamgen.errors import UsageError
from streamgen.models.var_classes import ClassNames

FILE = "streamgen.json"
IMAGENET = "imagenet"


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; 0 switches guidance, top-k or top-p off."""

    cfg: float  # guidance at the last scale; it grows from 0 at the first. Here 0, not 1, means none
    top_k: int
    top_p: float
    more_smooth: bool = False  # mix codes softly instead of taking one: smoother pictures, worse scores

    def check(self, vocabulary: int) -> "Sampling":
        """Settle the numbers, and refuse what a model of so many codes cannot do."""
        codes = f"is out of range; this model has {vocabulary} codes, and 0 keeps all"
        return replace(
            self,
            cfg=real("cfg", self.cfg, "is no guidance; give 0 for none, or up to about 10", 0),
            top_k=whole("top_k", self.top_k, codes, least=0, most=vocabulary),
            top_p=real(
                "top_p", self.top_p, "is out of range; it is a share from 0 to 1, and 0 keeps all", 0, 1
            ),
        )

    def changed(
        self, cfg: float | None, top_k: int | None, top_p: float | None, more_smooth: bool | None
    ) -> "Sampling":
        """With what was asked in place of the preset."""
        return Sampling(
            self.cfg if cfg is None else cfg,
            self.top_k if top_k is None else top_k,
            self.top_p if top_p is None else top_p,
            self.more_smooth if more_smooth is None else more_smooth,
        )


# demo: the pictures of the published notebook. fid: the settings of the published scores.
PUBLISHED = {"demo": Sampling(4.0, 900, 0.95), "fid": Sampling(1.5, 900, 0.96)}


@dataclass(frozen=True)
class ImageSettings:
    """The classes of a checkpoint by name, and its presets."""

    classes: ClassNames
    presets: dict[str, Sampling]

    @classmethod
    def load(cls, folder: Path) -> "ImageSettings":
        """Read `streamgen.json` of a checkpoint folder."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise UsageError(
                f"{folder} has no {FILE}, which names the classes and presets; add one beside vae/."
            )
        facts = json.loads(path.read_text(encoding="utf-8"))
        kind = facts.pop("pipeline", None)
        if kind != "image":
            raise UsageError(f"{path} describes a {kind!r} checkpoint; this pipeline makes an 'image'.")
        return cls.of(facts, str(path))

    @classmethod
    def of(cls, facts: dict[str, Any], source: str) -> "ImageSettings":
        """From the entries of a `streamgen.json`: classes and presets, and no other."""
        wrong = facts.keys() ^ {"classes", "presets"}
        if wrong:
            raise UsageError(f"{source} should hold classes and presets; look at {', '.join(sorted(wrong))}.")
        classes = facts["classes"]
        names = ClassNames.imagenet() if classes == IMAGENET else ClassNames(tuple(classes))
        return cls(names, {name: Sampling(**preset) for name, preset in facts["presets"].items()})

    @classmethod
    def published(cls, classes: int, vocabulary: int) -> "ImageSettings":
        """Of a published file, which says nothing of itself."""
        imagenet = ClassNames.imagenet()
        names = imagenet if classes == len(imagenet.names) else ClassNames.numbered(classes)
        presets = {name: replace(how, top_k=min(how.top_k, vocabulary)) for name, how in PUBLISHED.items()}
        return cls(names, presets)

    def preset(self, name: str) -> Sampling:
        if name not in self.presets:
            raise UsageError(f"There is no preset {name!r}; choose one of {', '.join(self.presets)}.")
        return self.presets[name]
