"""CausalWan: a stock diffusers `WanTransformer3DModel` that streams.

Shapes: B streams, C channels, F latent frames, H and W latent height and width, T tokens of F frames,
N text rows, n keys, h heads, d head dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from streamgen.models.attend import Attend
from streamgen.models.wan_blocks import (
    Site,
    StreamingCrossAttention,
    StreamingSelfAttention,
    self_key_value,
    text_key_value,
)
from streamgen.models.wan_rope import Rope, chunk_rope, time_rope, time_waves

KEPT = 64  # ropes and time waves at hand; a stream needs one rope a chunk and one set of waves a step


@dataclass(frozen=True)
class TextKV:
    """Cross-attention keys and values [B, N, h, d] of every layer, for one prompt."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def nbytes(self) -> int:
        return sum(k.nbytes + v.nbytes for k, v in self.layers)


class CausalWan:
    """Runs the stock blocks with rotary positions from any frame on and a memory that the caller owns."""

    def __init__(self, transformer: Any) -> None:
        config = transformer.config
        _refuse_other_wans(config)
        self.transformer = transformer
        self.layers: int = config.num_layers
        self.heads: int = config.num_attention_heads
        self.head_dim: int = config.attention_head_dim
        self.in_channels: int = config.in_channels
        self.out_channels: int = config.out_channels or config.in_channels
        self.patch: tuple[int, int] = (config.patch_size[1], config.patch_size[2])
        self._rope = lru_cache(maxsize=KEPT)(chunk_rope)
        self._waves = lru_cache(maxsize=KEPT)(time_waves)
        self_attention, cross_attention = StreamingSelfAttention(), StreamingCrossAttention()
        for block in transformer.blocks:
            block.attn1.set_processor(self_attention)
            block.attn2.set_processor(cross_attention)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.transformer.patch_embedding.weight.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.transformer.patch_embedding.weight.dtype
        return dtype

    def frame_tokens(self, height: int, width: int) -> int:
        """Tokens of one latent frame of this latent size."""
        rows, columns = self.patch
        if height % rows or width % columns:
            raise ValueError(
                f"A latent frame of {height}x{width} cannot be cut into patches of {rows}x{columns}; "
                f"choose a latent height divisible by {rows} and a width divisible by {columns}."
            )
        return (height // rows) * (width // columns)

    def rope(self, frames: int, height: int, width: int, start: int = 0) -> Rope:
        """Rotary positions of `frames` latent frames from latent frame `start` on."""
        self.frame_tokens(height, width)
        rows, columns = self.patch
        return self._rope(self.head_dim, frames, height // rows, width // columns, start, self.device)

    @torch.no_grad()
    def text(self, embeds: Tensor) -> TextKV:
        """The text side of every layer from embeds [B, N, text dim]; once per prompt."""
        embedded = self.transformer.condition_embedder.text_embedder(embeds.to(self.device, self.dtype))
        return TextKV(tuple(text_key_value(block.attn2, embedded) for block in self.transformer.blocks))

    @torch.no_grad()
    def __call__(self, x: Tensor, t: Tensor, text: TextKV, rope: Rope, attends: Sequence[Attend]) -> Tensor:
        """What the model predicts for x [B, C, F, H, W] at times t [B] or [B, F], 0 to 1000, on the CPU."""
        frames, height, width = x.shape[2:]
        hidden = self._tokens(x)
        temb, modulation = self._time(t, hidden, frames)
        for block, layer, attend in zip(self.transformer.blocks, text.layers, attends, strict=True):
            hidden = block(hidden, layer, modulation, Site(rope, attend))
        return self._head(hidden, temb, height // self.patch[0], width // self.patch[1])

    @torch.no_grad()
    def remember(self, x: Tensor, t: Tensor, text: TextKV, rope: Rope, attends: Sequence[Attend]) -> None:
        """The clean pass: only keys and values are wanted, so the last layer only stores its own."""
        hidden = self._tokens(x)
        _, modulation = self._time(t, hidden, x.shape[2])
        *blocks, last = self.transformer.blocks
        for block, layer, attend in zip(blocks, text.layers[:-1], attends[:-1], strict=True):
            hidden = block(hidden, layer, modulation, Site(rope, attend))
        shift, scale = _first_two(last.scale_shift_table, modulation)
        normed = (last.norm1(hidden.float()) * (1 + scale) + shift).type_as(hidden)
        attends[-1].store(*self_key_value(last.attn1, normed, rope))

    def rotate(self, k: Tensor, frames: float) -> Tensor:
        """Stored keys k [n, h, d], moved by a number of latent frames."""
        return time_rope(self.head_dim, frames, k.device).turn(k[None])[0]

    def _tokens(self, x: Tensor) -> Tensor:
        if x.shape[1] != self.in_channels:
            raise ValueError(
                f"The input has {x.shape[1]} channels and this transformer takes {self.in_channels}; "
                "give latents, with constant planes if the checkpoint has them, that add up to that."
            )
        self.frame_tokens(x.shape[3], x.shape[4])
        hidden = self.transformer.patch_embedding(x.to(self.dtype))
        return rearrange(hidden, "b d f h w -> b (f h w) d").contiguous()

    def _time(self, t: Tensor, hidden: Tensor, frames: int) -> tuple[Tensor, Tensor]:
        """Time embedding [B, dim] and six vectors [B, 6, dim] for the blocks; [B, T, ...] for t per frame."""
        embedder = self.transformer.condition_embedder
        waves = self._waves(tuple(t.flatten().tolist()), self.transformer.config.freq_dim, hidden.device)
        # A quantised embedder may have no parameters, or int8 ones; it takes the waves as they are.
        dtype = next((p.dtype for p in embedder.time_embedder.parameters()), torch.int8)
        temb = embedder.time_embedder(waves if dtype == torch.int8 else waves.to(dtype)).type_as(hidden)
        modulation = embedder.time_proj(embedder.act_fn(temb)).unflatten(1, (6, -1))
        if t.ndim == 1:
            return temb, modulation
        tokens = hidden.shape[1] // frames
        temb = temb.unflatten(0, tuple(t.shape)).repeat_interleave(tokens, dim=1)
        return temb, modulation.unflatten(0, tuple(t.shape)).repeat_interleave(tokens, dim=1)

    def _head(self, hidden: Tensor, temb: Tensor, rows: int, columns: int) -> Tensor:
        shift, scale = _first_two(self.transformer.scale_shift_table, temb.unsqueeze(-2))
        hidden = (self.transformer.norm_out(hidden.float()) * (1 + scale) + shift).type_as(hidden)
        return rearrange(
            self.transformer.proj_out(hidden),
            "b (f r c) (p q o) -> b o f (r p) (c q)",
            r=rows,
            c=columns,
            p=self.patch[0],
            q=self.patch[1],
        )


def _first_two(table: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Shift and scale [B, 1 or T, dim] from a table [1, k, dim] and vectors [B, (T,) k or 1, dim]."""
    both = table + vectors.float() if vectors.ndim == 3 else table[None] + vectors.float()
    shift, scale = both[..., 0, :], both[..., 1, :]
    return (shift[:, None], scale[:, None]) if shift.ndim == 2 else (shift, scale)


def _refuse_other_wans(config: Any) -> None:
    if config.patch_size[0] != 1:
        raise ValueError(
            f"Patches of {config.patch_size[0]} latent frames cannot be streamed frame by frame; "
            "use a checkpoint whose patch_size begins with 1."
        )
    if config.added_kv_proj_dim is not None or config.image_dim is not None:
        raise ValueError(
            "This checkpoint attends to CLIP image tokens (added_kv_proj_dim, image_dim); "
            "streaming takes text-to-video checkpoints, and a start image enters as the first latent frame."
        )
