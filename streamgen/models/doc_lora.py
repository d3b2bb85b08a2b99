"""Doc-to-LoRA (2602.15902): a hypernetwork that turns what a model reads into an adapter of that model.

Shapes: C chunks, L layers, S document tokens, D model width, M target modules, r rank, z latent size.
Parameter names are those of the published checkpoints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor, nn

from streamgen.errors import UsageError
from streamgen.models.doc_lora_adapter import Adapter, Factors
from streamgen.models.doc_lora_perceiver import Perceiver, Resampler

HEAD_DIM = 128  # of every published Perceiver, whatever its latent size


@dataclass(frozen=True)
class Target:
    """A linear module of every layer that gets an adapter."""

    name: str
    inputs: int
    outputs: int


@dataclass(frozen=True)
class DocLoraConfig:
    """Sizes of a hypernetwork; `alpha` multiplies the product of its factors as it is, not over the rank."""

    layers: int
    width: int
    latent: int
    queries: int
    encoder_layers: int
    decoder_layers: int
    mlps: int
    rank: int
    alpha: float
    targets: tuple[Target, ...]
    heads: int
    kv_heads: int
    bias: bool
    head_dim: int = HEAD_DIM

    def __post_init__(self) -> None:
        names = [target.name for target in self.targets]
        if not names or names != sorted(set(names)):
            raise UsageError(
                f"A hypernetwork has at least one module, each once and sorted; {names} are not."
            )

    @property
    def row(self) -> int:
        """Numbers that the head makes for one rank of one module: a row of A, then one of B."""
        return max(target.inputs + target.outputs for target in self.targets)


class PerLayerLinear(nn.Module):
    """A linear map of its own for every layer."""

    def __init__(self, layers: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(layers, inputs, outputs).uniform_(-1, 1) * inputs**-0.5)
        self.bias = nn.Parameter(torch.zeros(1, layers, 1, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("clmri,lio->clmro", x, self.weight) + self.bias


class PerLayerMLP(nn.Module):
    """A residual MLP of its own for every layer; its norms are shared by all of them."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        parts = [
            nn.LayerNorm(width),
            PerLayerLinear(layers, width, 4 * width),
            nn.SiLU(),
            PerLayerLinear(layers, 4 * width, width),
            nn.LayerNorm(width),
        ]
        self.layers = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class Head(nn.Module):
    """The last linear map of every layer, and of every module where there are several."""

    def __init__(self, config: DocLoraConfig) -> None:
        super().__init__()
        modules = len(config.targets)
        shape = (config.layers, *([modules] if modules > 1 else []), config.latent, config.row)
        self.weight = nn.Parameter(torch.randn(shape) * config.latent**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """[C, L, M, r, z] -> [C, L, M, r, row]."""
        weight = self.weight if self.weight.ndim == 4 else self.weight[:, None]
        return torch.einsum("clmrz,lmzo->clmro", x, weight)


class Aggregator(nn.Module):
    """The Perceiver under the name that it has in checkpoints."""

    def __init__(self, config: DocLoraConfig) -> None:
        super().__init__()
        heads = (config.heads, config.kv_heads, config.head_dim)
        encoder = Resampler(config.queries, config.latent, config.encoder_layers, *heads)
        rows = len(config.targets) * config.rank
        decoder = Resampler(rows, config.latent, config.decoder_layers, *heads)
        self.perceiver = Perceiver(config.width, encoder, decoder)


class HyperNetwork(nn.Module):
    """From features of a document to the factors of an adapter; an untrained one changes nothing (B = 0)."""

    def __init__(self, config: DocLoraConfig) -> None:
        super().__init__()
        self.config = config
        self.aggregator = Aggregator(config)
        self.layers = nn.ModuleList(PerLayerMLP(config.layers, config.latent) for _ in range(config.mlps))
        self.head = Head(config)
        shape = (1, config.layers, config.rank, 1)
        names = [target.name for target in config.targets]
        self.scaler_A = nn.ParameterDict({name: torch.ones(shape) for name in names})
        self.scaler_B = nn.ParameterDict({name: torch.zeros(shape) for name in names})
        if config.bias:
            spread = {t.name: 0.2 * (t.inputs * config.rank) ** -0.5 for t in config.targets}
            rows = (config.layers, config.rank)
            self.bias_A = nn.ParameterDict(
                {t.name: torch.randn(*rows, t.inputs) * spread[t.name] for t in config.targets}
            )
            self.bias_B = nn.ParameterDict({t.name: torch.zeros(*rows, t.outputs) for t in config.targets})

    def latents(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Any number l of layers, [C, l, S, D] -> [C, l, M, r, z]; mask [C, S] is true where tokens are."""
        chunks, layers, _, _ = features.shape
        rows = rearrange(features.float(), "c l s d -> (l c) s d")
        seen = None if mask is None else mask.bool().repeat(layers, 1)
        latents = self.aggregator.perceiver(rows, seen)
        return rearrange(latents, "(l c) (m r) z -> c l m r z", c=chunks, r=self.config.rank)

    def refined(self, latents: Tensor) -> Tensor:
        """After every layer's own MLPs, [C, L, M, r, z]."""
        for mlp in self.layers:
            latents = mlp(latents)
        return latents

    def factors(self, latents: Tensor) -> Factors:
        """A [C, L, r, in] and B [C, L, r, out] of every module, from the latents of all layers."""
        refined = self.refined(latents)
        rows = self.head(refined / refined.norm(dim=-1, keepdim=True))
        made: dict[str, tuple[Tensor, Tensor]] = {}
        for number, target in enumerate(self.config.targets):
            a, b = rows[:, :, number, :, : target.inputs + target.outputs].split(
                [target.inputs, target.outputs], -1
            )
            made[target.name] = (a * self.scaler_A[target.name], b * self.scaler_B[target.name])
        return made

    def combine(
        self, factors: Mapping[str, tuple[Tensor, Tensor]], scalers: Sequence[float] = (), bias: float = 1.0
    ) -> Adapter:
        """One adapter of the chunks of one document: a sum, so it grows with their number.

        `scalers` multiplies A chunk by chunk. `bias` multiplies both factors of the one learned block that
        every document gets, as in the published code, so its effect grows with the square.
        """
        chunks = next(iter(factors.values()))[0].shape[0]
        if scalers and len(scalers) != chunks:
            raise UsageError(f"{len(scalers)} scalers were given for {chunks} chunks; give one for each.")
        weights = torch.tensor(list(scalers) or [1.0] * chunks)[:, None, None, None]
        told = {
            name: (
                rearrange(a * weights.to(a), "c l r i -> l (c r) i"),
                rearrange(b, "c l r o -> l (c r) o"),
            )
            for name, (a, b) in factors.items()
        }
        learned = (
            {name: (self.bias_A[name] * bias, self.bias_B[name] * bias) for name in factors}
            if self.config.bias
            else {}
        )
        return Adapter(told, learned, self.config.alpha)
