"""Write the sums of a bundled checkpoint into the registry: python -m weights.recipes.register tiny-video."""

import json
import sys
from pathlib import Path

from streamgen.cli.checksums import listing, sha256

WEIGHTS = Path(__file__).resolve().parents[1]


def register(name: str) -> None:
    """Update the entry's files; the entry itself must be there, with its source and licence."""
    path = WEIGHTS / "registry.json"
    entries = json.loads(path.read_text())
    folder = WEIGHTS / entries[name].get("folder", name)
    entries[name]["files"] = {file: sha256(folder / file) for file in listing(folder)}
    path.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n")
    total = sum((folder / file).stat().st_size for file in entries[name]["files"])
    print(f"{name}: {len(entries[name]['files'])} files, {total / 1e6:.2f} MB")


if __name__ == "__main__":
    register(sys.argv[1])
