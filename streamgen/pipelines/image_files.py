"""Which files make an image model: a folder of streamgen's, or published files."""

from dataclasses import dataclass
from pathlib import Path

from streamgen.errors import UsageError
from streamgen.models.checkpoint import PICKLES
from streamgen.pipelines.image_settings import FILE, ImageSettings

WEIGHTS = (".safetensors", *PICKLES)


@dataclass(frozen=True)
class ImageFiles:
    """Where the weights lie, and what the checkpoint says of itself where it says anything."""

    var: Path
    vae: Path
    settings: ImageSettings | None

    @classmethod
    def find(cls, path: Path, vae: Path | None = None) -> "ImageFiles":
        """`path` is a folder or the VAR file; `vae` is needed only where more than one could be meant."""
        if path.is_file():
            return cls(path, vae or _single(path.parent, "vae", "vae=..."), None)
        if (path / FILE).is_file():
            return cls(path / "transformer", vae or path / "vae", ImageSettings.load(path))
        return cls(_single(path, "var", "the file itself"), vae or _single(path, "vae", "vae=..."), None)


def _single(folder: Path, kind: str, how: str) -> Path:
    """The only weight file of a folder whose name begins like this."""
    found = sorted(p for p in folder.glob(f"{kind}*") if p.suffix in WEIGHTS)
    if len(found) == 1:
        return found[0]
    there = f"{len(found)} files: {', '.join(p.name for p in found)}" if found else "none"
    raise UsageError(f"{folder} should hold one {kind}* weight file and holds {there}; give {how}.")
