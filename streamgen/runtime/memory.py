"""How many bytes a stream will hold, known before it runs: weights, cache pool, text keys and values.

Activations of one forward and the decoder's state come on top; they are not estimated here.
"""

from collections import Counter
from dataclasses import dataclass

from torch import nn

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


def weights_of(model: nn.Module, part: str = "") -> Share:
    """The weights of a model, on the meta device for example; tensors that are shared count once."""
    numbers: Counter[int] = Counter()
    for weight in model.parameters():  # torch tells a shared one once
        numbers[weight.itemsize] += weight.numel()
    terms = [f"{count} numbers x {itemsize} bytes" for itemsize, count in sorted(numbers.items())]
    held = sum(itemsize * count for itemsize, count in numbers.items())
    return Share(f"{part} weights".strip(), held, " + ".join(terms))


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
