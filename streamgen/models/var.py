"""VAR: a transformer that predicts an image scale by scale, from 1x1 tokens to the full map.

It knows no cache: every layer is handed an `Attend`. Parameters carry their published names.
Shapes: B sequences, S scales, p side of a scale's map, T = p*p tokens of a scale, L tokens of all scales,
C width, Z channels of the image latent, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from einops import rearrange
from torch import Tensor, nn

from streamgen.errors import UsageError
from streamgen.models.attend import Attend
from streamgen.models.var_blocks import AdaptiveBlock, AdaptiveNorm, adaptive


@dataclass(frozen=True)
class VarConfig:
    """Facts of a checkpoint; all of them can be read off its tensors."""

    depth: int
    width: int
    heads: int
    hidden: int
    classes: int
    patches: tuple[int, ...]  # side of each scale's map, rising
    vocabulary: int
    channels: int
    shared_adaln: bool
    unit_length: bool  # queries and keys are normalised

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UsageError(
                f"A width of {self.width} cannot be cut into {self.heads} heads; give a divisor."
            )
        if len(self.patches) < 2 or list(self.patches) != sorted(set(self.patches)) or self.patches[0] < 1:
            raise UsageError(f"{list(self.patches)} is no list of scales; give two or more rising sides.")

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def scales(self) -> int:
        return len(self.patches)

    @property
    def tokens(self) -> int:
        """L: tokens of all scales."""
        return sum(side * side for side in self.patches)

    @property
    def stored_tokens(self) -> int:
        """What a later scale looks back on: all but the last scale."""
        return self.tokens - self.patches[-1] ** 2

    @property
    def spans(self) -> tuple[range, ...]:
        """Where each scale lies among all tokens."""
        ends = list(accumulate(side * side for side in self.patches))
        return tuple(range(end - side * side, end) for end, side in zip(ends, self.patches, strict=True))

    def progress(self, scale: int) -> float:
        """0 at the first scale, 1 at the last."""
        return scale / (self.scales - 1)


@dataclass(frozen=True)
class Condition:
    """What the classes of B sequences say to every layer; computed once for all scales."""

    start: Tensor  # [B, C]
    blocks: tuple[Tensor, ...]  # [B, 6, C] for each layer
    head: Tensor  # [B, 2, C]


class VAR(nn.Module):
    """Logits of every token of a scale at once, given the image so far."""

    def __init__(self, config: VarConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.class_emb = nn.Embedding(config.classes + 1, width)
        self.pos_start = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_1LC = nn.Parameter(torch.zeros(1, config.tokens, width))
        self.lvl_embed = nn.Embedding(config.scales, width)
        self.word_embed = nn.Linear(config.channels, width)
        if config.shared_adaln:
            self.shared_ada_lin = adaptive(width, 6)
        self.blocks = nn.ModuleList(
            AdaptiveBlock(width, config.heads, config.hidden, config.unit_length, config.shared_adaln)
            for _ in range(config.depth)
        )
        self.head_nm = AdaptiveNorm(width)
        self.head = nn.Linear(width, config.vocabulary)

    @property
    def layers(self) -> tuple[AdaptiveBlock, ...]:
        return tuple(block for block in self.blocks if isinstance(block, AdaptiveBlock))

    @property
    def dtype(self) -> torch.dtype:
        """What the layers multiply in; the residual stream and the embeddings stay fp32."""
        return self.head.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def condition(self, labels: Tensor) -> Condition:
        """labels int64 [B], `config.classes` meaning no class."""
        start = self.class_emb(labels)
        told = start.to(self.dtype)
        if self.config.shared_adaln:
            shared = _vectors(self.shared_ada_lin(told), 6)
            blocks = [shared + layer.ada_gss[0] for layer in self.layers]
        else:
            blocks = [_vectors(layer.ada_lin(told), 6) for layer in self.layers]
        head = _vectors(self.head_nm.ada_lin(told), 2)
        one = torch.tensor([0.0, 0, 1, 1, 0, 0], device=told.device)[:, None]
        return Condition(start, tuple(block + one for block in blocks), head + one[3:5])

    def first(self, condition: Condition) -> Tensor:
        """The input of scale 0: [B, 1, C], the class itself."""
        return condition.start[:, None] + self.pos_start + self._place(0)

    def embed(self, scale: int, latent: Tensor) -> Tensor:
        """The input of a later scale: [B, T, C] of the image so far, pooled to [B, Z, p, p]."""
        words = self.word_embed(rearrange(latent, "b z h w -> b (h w) z").to(self.dtype))
        return words + self._place(scale)

    def forward(self, x: Tensor, condition: Condition, attends: Sequence[Attend]) -> Tensor:
        """x [B, T, C] -> logits [B, T, V] in fp32; one Attend for each layer."""
        for block, modulation, attend in zip(self.blocks, condition.blocks, attends, strict=True):
            x = block(x, modulation, attend)
        normed = self.head_nm(x, condition.head)
        return self.head(normed.to(self.dtype)).float()

    def _place(self, scale: int) -> Tensor:
        span = self.config.spans[scale]
        return self.lvl_embed.weight[scale] + self.pos_1LC[:, span.start : span.stop]


def _vectors(flat: Tensor, count: int) -> Tensor:
    return rearrange(flat, "b (n c) -> b n c", n=count).float()
