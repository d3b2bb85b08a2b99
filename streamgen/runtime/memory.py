"""How many bytes a stream will hold, known before it runs: weights, cache pool, text keys and values.

Activations of one forward and the decoder's state come on top; they are not estimated here.
"""

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

from streamgen.kv import Geometry
from streamgen.kv.arena import format_bytes


@dataclass(frozen=True)
class Share:
    """Bytes that one thing holds, and the sum that gives them."""

    what: str
    nbytes: int
    how: str

    def record(self) -> dict[str, object]:
        """For JSON: the bytes, the same to read, and how they come about."""
        return {"bytes": self.nbytes, "readable": format_bytes(self.nbytes), "how": self.how}


def weights_of(folder: Path, itemsize: int | None = None) -> Share:
    """A part's weights, from the headers of its safetensors; nothing else of them is read."""
    stored = numbers = 0
    for path in sorted(folder.glob("*.safetensors")):
        for elements, nbytes in _tensors(path):
            numbers += elements
            stored += nbytes
    held = stored if itemsize is None else numbers * itemsize
    how = f"{numbers} numbers" + ("" if itemsize is None else f" x {itemsize} bytes")
    return Share(f"{folder.name} weights", held, how)


def cache_pool(geometry: Geometry, pages: int) -> Share:
    """The pool of keys and values, exactly as it is allocated."""
    g = geometry
    how = (
        f"{pages} pages x 2 (keys, values) x {g.layers_per_page} layers x {g.page_size} tokens"
        f" x {g.kv_heads} heads x {g.head_dim} x {g.dtype.itemsize} bytes"
    )
    return Share("cache", pages * g.page_bytes, how)


def text_memory(layers: int, heads: int, head_dim: int, rows: int, itemsize: int) -> Share:
    """Cross-attention keys and values of one prompt, kept for as long as it holds."""
    how = f"2 x {layers} layers x {rows} text rows x {heads} heads x {head_dim} x {itemsize} bytes"
    return Share("text", 2 * layers * rows * heads * head_dim * itemsize, how)


def _tensors(path: Path) -> list[tuple[int, int]]:
    """(elements, bytes) of every tensor in a safetensors file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    return [(math.prod(e["shape"]), e["data_offsets"][1] - e["data_offsets"][0]) for e in entries]
