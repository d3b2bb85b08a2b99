"""The next-scale model of `tiny-var` and its teacher: all scales at once under a mask.

Shapes: B pictures, L tokens of all scales, V codes, H heads, D head dim.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Generator, Tensor, nn

from streamgen.models.var import VAR, VarConfig
from streamgen.models.vqvae_scales import ScaleQuantizer

from .codec import CHANNELS, CODES, PATCHES
from .digits import CLASSES

UNTOLD = 0.1  # share of the pictures whose class is kept from the model
SLIPS = 0.1  # share of the tokens that a later scale sees wrong, so that it learns to mend


def var() -> VAR:
    config = VarConfig(
        depth=6, width=192, heads=6, hidden=768, classes=CLASSES, patches=PATCHES, vocabulary=CODES,
        channels=CHANNELS, shared_adaln=False, unit_length=True,
    )  # fmt: skip
    model = VAR(config)
    for name, parameter in model.named_parameters():
        if "ada_lin" in name:
            parameter.data.mul_(0.1 if parameter.ndim > 1 else 0.0)
        elif name.endswith(("_emb.weight", "_embed.weight")) or "pos_" in name:
            parameter.data.normal_(0, 0.3)
    for block in model.layers:
        block.ada_lin[1].bias.data[: 2 * config.width] = 0.3  # the gates
    return model


class BlockMask(nn.Module):
    """Attention in which a token sees its own scale and the ones before it; q, k and v are [B, L, H, D]."""

    def __init__(self) -> None:
        super().__init__()
        level = torch.cat([torch.full((side * side,), scale) for scale, side in enumerate(PATCHES)])
        hidden = level[:, None] < level[None, :]
        self.register_buffer("bias", torch.zeros(hidden.shape).masked_fill(hidden, float("-inf")))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (rearrange(x, "b n h d -> b h n d") for x in (q, k, v))
        scores = (q @ k.mT) * q.shape[-1] ** -0.5 + self.bias
        return rearrange(scores.softmax(-1).to(v.dtype) @ v, "b h n d -> b n h d")

    def store(self, k: Tensor, v: Tensor) -> None:
        raise AssertionError("nothing is stored in training")


def inputs(quantizer: ScaleQuantizer, tokens: Tensor, rng: Generator) -> tuple[list[Tensor], Tensor]:
    """What every scale but the first sees, and what it is to answer: the best code for what is really left.

    Some tokens slip, and the scales after them answer for the latent with the slips in it. tokens [B, L].
    """
    cut = tokens.split([side * side for side in PATCHES], 1)
    true = sum(quantizer.part(quantizer.codes(t), scale, PATCHES) for scale, t in enumerate(cut))
    seen, maps, answers = torch.zeros(()), [], []
    for scale, side in enumerate(PATCHES):
        rest = true - seen
        pooled = rest if side == PATCHES[-1] else quantizer.pooled(rest, side)
        answers.append(quantizer.nearest(pooled) if scale else cut[0])
        if side == PATCHES[-1]:
            break
        shown = slipped(answers[-1], rng)
        seen = seen + quantizer.part(quantizer.codes(shown), scale, PATCHES)
        maps.append(quantizer.pooled(seen, PATCHES[scale + 1]))
    return maps, torch.cat(answers, 1)


def slipped(tokens: Tensor, rng: Generator) -> Tensor:
    share = SLIPS * torch.rand(len(tokens), 1, generator=rng)
    wrong = torch.randint(CODES, tokens.shape, generator=rng)
    return torch.where(torch.rand(tokens.shape, generator=rng) < share, wrong, tokens)


def loss(
    model: VAR, attend: BlockMask, quantizer: ScaleQuantizer, tokens: Tensor, labels: Tensor, rng: Generator
) -> Tensor:
    """Cross-entropy of every token, each scale weighing the same to a half."""
    with torch.no_grad():
        maps, answers = inputs(quantizer, tokens, rng)
    told = torch.where(torch.rand(len(labels), generator=rng) < UNTOLD, CLASSES, labels)
    condition = model.condition(told)
    later = [model.embed(scale, latent) for scale, latent in enumerate(maps, start=1)]
    logits = model(torch.cat([model.first(condition), *later], 1), condition, [attend] * model.config.depth)
    apart = F.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none").view_as(answers)
    scales = torch.stack([part.mean() for part in apart.split([side * side for side in PATCHES], 1)])
    return 0.5 * apart.mean() + 0.5 * scales.mean()
