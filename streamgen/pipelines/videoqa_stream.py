"""One stream's past in all layers, and the model's passes over it.

Shapes: L layers, T new tokens, n remembered ones of a layer, A position axes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from streamgen.attention.check import checked
from streamgen.attention.contract import Need
from streamgen.kv.cache import KVCache
from streamgen.kv.forget import Kept, forget
from streamgen.kv.masks import Causal
from streamgen.kv.table import IntArray
from streamgen.models.vlm import Piece, StreamingVLM
from streamgen.models.vlm_guidance import attention_to

SCATTERED = 64  # stretches of memory


class LayeredStream:
    """Tokens go in; each layer keeps its own, at its own positions. The first `prompt` ones stay for ever."""

    def __init__(self, vlm: StreamingVLM, cache: KVCache, attention: str, prompt: int = 0) -> None:
        self.vlm = vlm
        self.cache = cache
        self.attention = attention
        self.prompt = prompt
        self.kernel = attention  # the name; of the one that was chosen, once a piece was fed

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(table.tokens for table in self.cache.tables)

    @property
    def video(self) -> int:
        """Video tokens of the longest layer."""
        return self.cache.tokens - self.prompt

    @property
    def starts(self) -> list[int]:
        """The position of the next token in each layer: behind every other, on every axis."""
        return [
            0 if table.positions is None or not table.tokens else int(table.positions.max()) + 1
            for table in self.cache.tables
        ]

    def feed(self, piece: Piece) -> Tensor:
        """Remember a piece; its last hidden states [1, T, dim]. What fails leaves no trace."""
        positions = [piece.places + start for start in self.starts]
        with self.cache.stage(piece.tokens, Causal(), positions=positions) as stage:
            kernel = checked(self.attention, wherever(Need.of([stage], self.vlm.heads)))
            self.kernel = kernel.name
            hidden = self.vlm(piece, positions, kernel.plan([stage], self.vlm.heads))
            stage.commit()
        return hidden

    def guided(self, texts: Sequence[Tensor | None]) -> list[Tensor]:
        """How much each layer's text [1, Q, dim] looks at each video slot [n]; zeros where there is none."""
        return [
            self._looks(layer, embeds, start)
            for layer, (embeds, start) in enumerate(zip(texts, self.starts, strict=True))
        ]

    def let_go(self, video: Sequence[IntArray], renumber: bool, summarize: Sequence[int] = ()) -> Kept:
        """Keep the prompt and these rising video slots of each layer."""
        pinned = np.arange(self.prompt, dtype=np.int64)
        keep = [np.concatenate([pinned, slots + self.prompt]) for slots in video]
        return forget(self.cache, keep, self.vlm.rotate, self.prompt, summarize, renumber)

    def renumber(self) -> Kept:
        """Close the gaps in the positions of every layer; nothing goes."""
        return self.let_go([np.arange(length - self.prompt) for length in self.lengths], renumber=True)

    def fork(self) -> "LayeredStream":
        """The same past, to be asked; the caller closes its cache."""
        return LayeredStream(self.vlm, self.cache.fork(), self.attention, self.prompt)

    def copied_to(self, cache: KVCache) -> "LayeredStream":
        """The same past in an empty cache of another pool."""
        for layer, table in enumerate(self.cache.tables):
            k, v = self.cache.read(layer)
            assert table.positions is not None, "every stream here has positions"
            cache.append(k[None], v[None], positions=table.positions, tables=[layer])
        return LayeredStream(self.vlm, cache, self.attention, self.prompt)

    def _looks(self, layer: int, embeds: Tensor | None, start: int) -> Tensor:
        slots = torch.from_numpy(self.cache.tables[layer].slots).to(self.cache.pool.device)
        if embeds is None:
            return torch.zeros(len(slots) - self.prompt, device=slots.device)
        keys = self.cache.pool.flat[0][0].index_select(0, slots)
        places = self.vlm.on_axes(np.arange(embeds.shape[1], dtype=np.int64) + start)
        return attention_to(self.vlm, layer, embeds, places, keys)[self.prompt :]


def wherever(need: Need) -> Need:
    """The same need with pages anywhere: a session that was loaded or copied rounds like the one it was."""
    return replace(need, one_run=False, runs=SCATTERED)
