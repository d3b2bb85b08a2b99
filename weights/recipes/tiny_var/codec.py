"""The VQ-VAE of `tiny-var`: 32x32 pictures as 85 tokens on four scales. The class is the one that streams.

Shapes: B pictures, Z channels, P side of the last scale's map.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from streamgen.models.vqvae import VQVAE, VqConfig
from streamgen.models.vqvae_layers import Ladder
from streamgen.models.vqvae_scales import ScaleQuantizer

from .digits import Digits, coloured, moved

PATCHES = (1, 2, 4, 8)
CODES, CHANNELS = 256, 16
BATCH, RATE, COMMITMENT = 64, 2e-3, 0.25
REVIVE_EVERY, REVIVE_UNTIL = 50, 0.7  # steps, share of the budget


def vqvae() -> VQVAE:
    ladder = Ladder(3, CHANNELS, 16, (1, 2, 2), 1, lowest_attention=False, middle_attention=True)
    return VQVAE(VqConfig(CODES, ladder, phis=4, sharing="stretches", kernel=3))


class CodecTrainer:
    """Straight-through residual quantisation; codes that nobody uses begin again where something is left."""

    def __init__(self, digits: Digits) -> None:
        torch.manual_seed(0)
        self.model, self.digits = vqvae(), digits
        self.model.quantize.codebook.data.normal_(0, 0.5)
        for phi in self.model.quantize.quant_resi.modules():
            if isinstance(phi, nn.Conv2d):
                phi.weight.data.mul_(0.1)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), RATE, betas=(0.9, 0.98), weight_decay=1e-4
        )
        self.used, self.step = torch.zeros(CODES), 0

    def update(self, part: float, rng: Generator) -> float:
        """One step at this share of the budget; the reconstruction error of the batch."""
        pictures, _ = self.digits.batch(BATCH, rng)
        latent = self.model.latent(pictures)
        total, rest, commitment = residuals(self.model.quantize, latent, self.used)
        straight = latent + (total - latent).detach()
        seen = self.model.decoder(self.model.post_quant_conv(straight))
        error = F.mse_loss(seen, pictures)
        (error + 0.2 * F.l1_loss(seen, pictures) + commitment).backward()
        descend(self.optimizer, self.step, part)
        self.step += 1
        if self.step % REVIVE_EVERY == 0 and part < REVIVE_UNTIL:
            self._revive(rest, rng)
        return error.item()

    def _revive(self, rest: list[Tensor], rng: Generator) -> None:
        """Unused codes become residuals of this batch, from any scale."""
        dead = (self.used < 1).nonzero().flatten()
        places = torch.cat([r.detach().movedim(1, -1).flatten(0, -2) for r in rest])
        chosen = places[torch.randint(len(places), (len(dead),), generator=rng)]
        self.model.quantize.codebook.data[dead] = chosen
        self.used.zero_()


class PreviewTrainer:
    """The decoder alone goes on, half of the time with the first scales only: previews look like pictures.

    The tokens stay what they are.
    """

    def __init__(self, model: VQVAE, digits: Digits) -> None:
        self.model, self.digits, self.step = model.requires_grad_(False), digits, 0
        learning = [*model.decoder.parameters(), *model.post_quant_conv.parameters()]
        for parameter in learning:
            parameter.requires_grad_(True)
        self.optimizer = torch.optim.AdamW(learning, RATE, betas=(0.9, 0.98), weight_decay=1e-4)

    def update(self, part: float, rng: Generator) -> float:
        """One step at this share of the budget; the reconstruction error of the batch."""
        pictures, _ = self.digits.batch(BATCH, rng)
        sums = torch.stack(self.model.encode(pictures, PATCHES).sums)
        scale = torch.randint(len(PATCHES), (BATCH,), generator=rng)
        scale[: BATCH // 2] = len(PATCHES) - 1
        seen = self.model.decoder(self.model.post_quant_conv(sums[scale, torch.arange(BATCH)]))
        error = F.mse_loss(seen, pictures)
        (error + 0.2 * F.l1_loss(seen, pictures)).backward()
        descend(self.optimizer, self.step, part)
        self.step += 1
        return error.item()


def descend(optimizer: torch.optim.Optimizer, step: int, part: float) -> None:
    """One clipped step of the gradients that are there, at the rate of this share of the budget."""
    [group] = optimizer.param_groups
    nn.utils.clip_grad_norm_(group["params"], 1.0)
    group["lr"] = RATE * min(1.0, (step + 1) / 30) * min(1.0, 2 * (1 - part) + 0.02)
    optimizer.step()
    optimizer.zero_grad()


def residuals(quantizer: ScaleQuantizer, latent: Tensor, used: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """The quantised latent, what each scale had to code, and how far code and latent are apart."""
    rest, total = latent.detach(), torch.zeros_like(latent)
    coded, apart = [], torch.zeros(())
    for scale, side in enumerate(PATCHES):
        pooled = rest if side == PATCHES[-1] else quantizer.pooled(rest, side)
        coded.append(pooled)
        tokens = quantizer.nearest(pooled)
        used += tokens.flatten().bincount(minlength=CODES)
        part = quantizer.part(quantizer.codes(tokens), scale, PATCHES)
        rest, total = rest - part.detach(), total + part
        apart = apart + F.mse_loss(total, latent.detach()) + COMMITMENT * F.mse_loss(total.detach(), latent)
    return total, coded, apart / len(PATCHES)


@torch.no_grad()
def fidelity(model: VQVAE, pictures: Tensor) -> tuple[Tensor, float]:
    """What comes back of pictures [B, 3, 32, 32], and its PSNR in dB."""
    parts = [model.decode(model.encode(part, PATCHES).sums[-1]) for part in pictures.split(250)]
    back = torch.cat(parts)
    return back, float(10 * torch.log10(4 / F.mse_loss(back, pictures)))


@torch.no_grad()
def tokens_of(model: VQVAE, digits: Digits, times: int, rng: Generator) -> tuple[Tensor, Tensor]:
    """Every picture `times` times, each time moved a little: tokens [N, 85] and labels [N]."""
    tokens = [
        torch.cat(model.encode(coloured(moved(part, rng)), PATCHES).tokens, 1)
        for _ in range(times)
        for part in digits.pictures.split(250)
    ]
    return torch.cat(tokens), digits.labels.repeat(times)
