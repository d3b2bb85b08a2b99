"""Whether a checkpoint is the one that was registered."""

import hashlib
from collections.abc import Mapping
from pathlib import Path


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mismatches(folder: Path, files: Mapping[str, str]) -> list[str]:
    """One sentence for every registered file that is missing or different, and for every unregistered one."""
    faults = []
    for name, expected in sorted(files.items()):
        path = folder / name
        if not path.is_file():
            faults.append(f"{name} is missing.")
        elif (found := sha256(path)) != expected:
            faults.append(f"{name} has the SHA-256 {found[:12]}... and {expected[:12]}... is registered.")
    unknown = sorted(set(listing(folder)) - set(files))
    return faults + [f"{name} is not registered." for name in unknown]


def listing(folder: Path) -> list[str]:
    """The files of a checkpoint, as the registry names them."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder) for path in paths)
    return sorted(name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts))
