"""The loop over the scales of a batch of images: look, choose tokens, add them to the latent.

Shapes: B images, R sequences (B, or 2B under guidance: told rows, then untold ones), T tokens of a scale,
V vocabulary, Z latent channels, p side of a scale's map, P side of the last one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from streamgen.models.var import VAR
from streamgen.models.vqvae import VQVAE
from streamgen.models.vqvae_scales import as_map
from streamgen.pipelines.image_memory import ScaleMemory
from streamgen.sampling.tokens import draw, exponential, guide, keep_top_k, keep_top_p, soft_codes

Choose = Callable[[int, Tensor], "Choice"]  # a scale and its logits [R, T, V]


@dataclass(frozen=True)
class Choice:
    """What a scale was decided to be."""

    tokens: Tensor  # [B, T]
    codes: Tensor  # [B, Z, p, p]


@dataclass(frozen=True)
class Scale:
    """One scale, done."""

    index: int
    tokens: Tensor  # [B, T]
    latent: Tensor  # [B, Z, P, P], the sum of this scale and all before it


def generate_scales(
    model: VAR, vae: VQVAE, labels: Tensor, memory: ScaleMemory, choose: Choose
) -> Iterator[Scale]:
    """Coarse to fine; labels [R]. A scale sees the image so far, and by the memory all scales before it."""
    patches = model.config.patches
    condition = model.condition(labels)
    x, latent = model.first(condition), torch.zeros(())
    for index, side in enumerate(patches):
        if index:
            so_far = vae.quantize.pooled(latent, side)
            x = model.embed(index, so_far.repeat(len(labels) // len(latent), 1, 1, 1))
        with memory.scale(index) as attends:
            logits = model(x, condition, attends)
        choice = choose(index, logits)
        latent = latent + vae.quantize.part(choice.codes, index, patches)
        yield Scale(index, choice.tokens, latent)


@dataclass(frozen=True)
class Sampler:
    """Chooses the tokens of a scale: guidance that grows with the scales, top-k, top-p, one draw an image."""

    vae: VQVAE
    scales: int
    cfg: float
    top_k: int
    top_p: float
    more_smooth: bool
    generators: tuple[Generator, ...]  # one an image

    def __call__(self, scale: int, logits: Tensor) -> Choice:
        progress = scale / (self.scales - 1)
        told, images = logits, len(self.generators)
        if len(logits) > images:
            told = guide(logits[:images], logits[images:], self.cfg * progress)
        kept = keep_top_p(keep_top_k(told, self.top_k), self.top_p)
        tokens = draw(kept, self._noise(kept))
        if not self.more_smooth:
            return Choice(tokens, self.vae.quantize.codes(tokens))
        soft = soft_codes(kept, -self._noise(kept).log(), self.vae.quantize.codebook, progress)
        return Choice(tokens, as_map(soft))

    def _noise(self, logits: Tensor) -> Tensor:
        return exponential(logits.shape[1:], self.generators).to(logits.device)
