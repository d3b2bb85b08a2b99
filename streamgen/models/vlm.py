"""A stock vision-language model that watches a stream; its keys and values go elsewhere.

The adapter runs the stock decoder layers in its own loop, because positions may differ from layer to layer;
attention answers through the `Attend`s of the call. Nothing of any stream stays here.
Shapes: L layers, T new tokens, U distinct rows of positions, A position axes (1 is left out), D head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.attend import Attend
from streamgen.models.rope import STEADY
from streamgen.models.transformers_attention import stream_attention

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """New tokens of a stream, as a language model takes them."""

    embeds: Tensor  # [1, T, dim]
    places: IntArray  # [T] or [T, A]: positions, counted from where the piece begins
    owners: IntArray  # [T]: the picture of the piece that a token shows, or belongs to
    lifts: tuple[Tensor, ...] = field(default=())  # [1, T, dim], added after the first layers (DeepStack)

    @property
    def tokens(self) -> int:
        return len(self.places)


class StreamingVLM:
    """The language side of a vision-language model; `axes` is 3 for multimodal rotary positions."""

    def __init__(self, model: Any, axes: int = 1) -> None:
        self.model = model
        self.text = model.model.language_model
        self.axes = axes
        config = self.text.config
        _refuse(config, type(model).__name__)
        self.layers: int = config.num_hidden_layers
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = self.text.layers[0].self_attn.head_dim
        self.limit: int = config.max_position_embeddings
        stream_attention(self.text)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.text.embed_tokens.weight.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.text.embed_tokens.weight.dtype
        return dtype

    @torch.no_grad()
    def words(self, ids: Sequence[int]) -> Piece:
        """Text tokens, one position after the other on every axis."""
        places = np.arange(len(ids), dtype=np.int64)
        embeds = self.text.embed_tokens(torch.tensor([list(ids)], device=self.device))
        return Piece(embeds, self.on_axes(places), np.full(len(ids), -1, dtype=np.int64))

    def on_axes(self, places: IntArray) -> IntArray:
        """The same position on every axis: [T] -> [T] or [T, A]."""
        return places if self.axes == 1 else np.repeat(places[:, None], self.axes, axis=1)

    @torch.no_grad()
    def __call__(self, piece: Piece, positions: Sequence[IntArray], attends: Sequence[Attend]) -> Tensor:
        """The last hidden states [1, T, dim] of new tokens; positions [T] or [T, A] for each layer."""
        hidden = piece.embeds
        turns = self._turns(hidden, positions)
        for number, (layer, turn) in enumerate(zip(self.text.layers, turns, strict=True)):
            hidden = layer(
                hidden, attention_mask=None, position_embeddings=turn, use_cache=False, attends=attends
            )
            if number < len(piece.lifts):
                hidden = hidden + piece.lifts[number]
        return self.text.norm(hidden)

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """What may follow the last token, fp32 [vocabulary]."""
        logits: Tensor = self.model.lm_head(hidden[:, -1])
        return logits[0].float()

    @torch.no_grad()
    def listen(
        self, layer: int, embeds: Tensor, positions: IntArray, attends: Sequence[Attend | None]
    ) -> None:
        """Put word embeddings [1, T, dim] to the attention of one layer alone."""
        site = self.text.layers[layer]
        [turn] = self._turns(embeds, [positions])
        site.self_attn(
            hidden_states=site.input_layernorm(embeds),
            position_embeddings=turn,
            attention_mask=None,
            attends=attends,
        )

    @torch.no_grad()
    def rotate(self, keys: Tensor, shift: Tensor) -> Tensor:
        """Stored keys [T, H, D] moved on by [T] or [T, A] positions; fp32 inside, and one rounding."""
        wide = keys.to(torch.promote_types(keys.dtype, torch.float32))
        cos, sin = self.text.rotary_emb(wide, self._ids(shift[None]))
        scale = self.text.rotary_emb.attention_scaling
        cos, sin = cos[0, :, None] / scale, sin[0, :, None] / scale
        low, high = wide.chunk(2, dim=-1)
        return (wide * cos + torch.cat([-high, low], dim=-1) * sin).to(keys.dtype)

    def _turns(self, like: Tensor, positions: Sequence[IntArray]) -> list[tuple[Tensor, Tensor]]:
        """Cosine and sine [1, T, D] of every layer; rows that layers share are computed once."""
        keys = [row.tobytes() for row in positions]
        rows = dict(zip(keys, positions, strict=True))
        place = {key: number for number, key in enumerate(rows)}
        ids = torch.from_numpy(np.stack(list(rows.values()))).to(like.device)
        cos, sin = self.text.rotary_emb(like, self._ids(ids))
        return [(cos[place[key], None], sin[place[key], None]) for key in keys]

    def _ids(self, positions: Tensor) -> Tensor:
        """[U, T] as it is, or [U, T, A] -> [A, U, T]."""
        return positions if self.axes == 1 else positions.permute(2, 0, 1)


def _refuse(config: Any, name: str) -> None:
    """Refuse models whose stored keys cannot be moved, or whose layers have windows of their own."""
    kind = config.rope_parameters["rope_type"]
    if kind not in STEADY:
        raise UsageError(
            f"{name} turns its keys with rope_type {kind!r}, which changes with the length of the stream; "
            f"choose a checkpoint with one of {', '.join(STEADY)}."
        )
    windows = {kind for kind in getattr(config, "layer_types", None) or () if kind != "full_attention"}
    if windows:
        raise UsageError(
            f"{name} has layers of {', '.join(sorted(windows))}; streams need full_attention in every layer."
        )
