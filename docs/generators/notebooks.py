"""Runs every notebook in demos/ and keeps the picture of its cell that is tagged `cover`, for the docs.

python docs/generators/notebooks.py [name ...]
"""

import base64
import io
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
COLOURS = 128


def cover(path: Path) -> Image.Image:
    """What the tagged cell of a notebook draws."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": path.parent}}).execute()
    [cell] = [cell for cell in notebook.cells if "cover" in cell.metadata.get("tags", [])]
    [data] = [output.data["image/png"] for output in cell.outputs if "image/png" in output.get("data", {})]
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def main() -> None:
    for path in sorted(ROOT.glob("demos/*.ipynb")):
        if path.stem in sys.argv[1:] or not sys.argv[1:]:
            begin, target = time.perf_counter(), PICTURES / f"notebook_{path.stem}.png"
            cover(path).quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
            print(
                f"{path.stem}: {time.perf_counter() - begin:.0f} s, {target.stat().st_size // 1024} KiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
