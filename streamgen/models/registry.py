"""Checkpoints by name: the bundled ones come with the package, the others have a home on the hub."""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from streamgen.errors import UsageError

# Of a published checkpoint these are read; a repository may hold demos and training states as well.
WANTED_FILES = (
    "*.json",
    "*.safetensors",
    "*.txt",
    "*.model",
    "*/*.json",
    "*/*.safetensors",
    "*/*.txt",
    "*/*.model",
)


@dataclass(frozen=True)
class Entry:
    """One line of the registry: a bundled folder, or a repository on the hub."""

    name: str
    facts: dict[str, Any]

    @property
    def folder(self) -> Path | None:
        """Where it lies when it came with the package."""
        folder = weights_folder() / str(self.facts.get("folder", self.name))
        return folder if folder.is_dir() else None

    @property
    def hub(self) -> str | None:
        hub: str | None = self.facts.get("hub")
        return hub


def weights_folder() -> Path:
    """The folder of registry and bundled checkpoints: inside a wheel, or `weights/` of a source tree."""
    package = Path(str(files("streamgen")))
    installed = package / "_weights"
    return installed if installed.is_dir() else package.parent / "weights"


def registry() -> dict[str, Entry]:
    """Every checkpoint that streamgen knows by name."""
    entries = json.loads((weights_folder() / "registry.json").read_text())
    return {name: Entry(name, facts) for name, facts in entries.items()}


def resolve(name_or_path: str | Path, download: bool = False) -> Path:
    """The local folder of a bundled name, a path, or a hub id. Only `download=True` opens a connection."""
    path = Path(name_or_path)
    if path.exists():
        return path
    known = registry()
    name = str(name_or_path)
    entry = known.get(name)
    if entry is not None and entry.folder is not None:
        return entry.folder
    hub = entry.hub if entry is not None else (name if name.count("/") == 1 else None)
    if entry is not None and hub is None:
        raise UsageError(
            f"'{name}' comes with streamgen, but its folder is not in {weights_folder()}; "
            "reinstall the package, or give the folder of a copy."
        )
    if hub is None:
        bundled = ", ".join(sorted(known)) or "none"
        raise UsageError(
            f"'{name}' is neither a folder nor a known checkpoint; known names: {bundled}. "
            "Give one of them, a path that exists, or a hub id such as 'owner/name'."
        )
    return _from_hub(hub, download)


def _from_hub(hub: str, download: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub, allow_patterns=list(WANTED_FILES), local_files_only=not download))
    except LocalEntryNotFoundError as error:
        pull = f"allow the download with download=True or `streamgen models pull {hub}`"
        advice = "the hub could not be reached" if download else pull
        raise UsageError(
            f"'{hub}' is not a folder here and not in the local hub cache; {advice}, or give a local folder."
        ) from error
