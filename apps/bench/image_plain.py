"""A straightforward implementation of the published VAR, to measure against.

One cache on every attention site, grown by concatenation, AdaLN computed at every scale, one doubled batch,
pictures in NCHW. It shares the weights.
Shapes: B images, R = 2B sequences (told, then untold), T tokens, H heads, D head dim.
"""

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from streamgen.models.var import VAR
from streamgen.models.var_blocks import LOUDEST, NORM_EPS, AdaptiveBlock, ScaledAttention
from streamgen.models.vqvae import VQVAE
from streamgen.models.vqvae_layers import Norm


class PlainAttention:
    """One site; it owns its keys and values, as the published one does."""

    def __init__(self, attention: ScaledAttention) -> None:
        self.attention = attention
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        own = self.attention
        bias = torch.cat((own.q_bias, torch.zeros_like(own.q_bias), own.v_bias))
        qkv = F.linear(x, own.mat_qkv.weight, bias).view(*x.shape[:2], 3, own.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # [R, H, T, D]
        scale: Tensor = own.scale_mul_1H11  # type: ignore[assignment]
        q = F.normalize(q, dim=-1) * scale.clamp_max(LOUDEST).exp()
        k = F.normalize(k, dim=-1)
        self.k = k if self.k is None else torch.cat((self.k, k), dim=2)
        self.v = v if self.v is None else torch.cat((self.v, v), dim=2)
        out = F.scaled_dot_product_attention(q.type_as(v), self.k.type_as(v), self.v, scale=1.0)
        return own.proj(out.transpose(1, 2).reshape(*x.shape))


class PlainVar:
    """Greedy or sampled pictures, scale by scale, the published way."""

    def __init__(self, model: VAR, vae: VQVAE) -> None:
        self.model, self.vae = model, plain_decoder(vae)

    @torch.no_grad()
    def generate(self, labels: Sequence[int], cfg: float, top_k: int, seed: int) -> Tensor:
        """Pictures [B, 3, H, W] in [0, 1]."""
        model, patches = self.model, self.model.config.patches
        rng = torch.Generator().manual_seed(seed)
        sites = [PlainAttention(block.attn) for block in model.layers]
        told = torch.tensor([*labels, *[model.config.classes] * len(labels)])
        cond = model.class_emb(told)
        x = cond[:, None] + model.pos_start + model._place(0)
        f_hat: Tensor = torch.zeros(len(labels), model.config.channels, patches[-1], patches[-1])
        for scale in range(len(patches)):
            for block, site in zip(model.layers, sites, strict=True):
                x = plain_block(block, site, x, cond)
            strength = cfg * model.config.progress(scale)
            guided = (1 + strength) * (logits := self._logits(x, cond))[: len(labels)] - strength * logits[
                len(labels) :
            ]
            guided = guided.masked_fill(
                guided < guided.topk(top_k, dim=-1)[0].amin(-1, keepdim=True), -torch.inf
            )
            tokens = torch.multinomial(guided.softmax(-1).flatten(0, 1), 1, generator=rng).view(
                len(labels), -1
            )
            quantizer = self.vae.quantize
            f_hat = f_hat + quantizer.part(quantizer.codes(tokens), scale, patches)
            if scale + 1 < len(patches):
                latent = F.interpolate(f_hat, size=(patches[scale + 1],) * 2, mode="area")
                words = model.word_embed(latent.flatten(2).transpose(1, 2))
                x = (words + model._place(scale + 1)).repeat(2, 1, 1)
        decoded: Tensor = self.vae.decoder(self.vae.post_quant_conv(f_hat)).clamp(-1, 1)
        return decoded.add(1).mul(0.5)

    def _logits(self, x: Tensor, cond: Tensor) -> Tensor:
        scale, shift = self.model.head_nm.ada_lin(cond)[:, None].chunk(2, dim=-1)
        normed = F.layer_norm(x.float(), x.shape[-1:], eps=NORM_EPS).mul(scale.add(1)).add_(shift)
        logits: Tensor = self.model.head(normed.float()).float()
        return logits


def plain_block(block: AdaptiveBlock, site: PlainAttention, x: Tensor, cond: Tensor) -> Tensor:
    """One layer; the class is asked again at every scale."""
    vectors = block.ada_lin(cond).view(-1, 1, 6, x.shape[-1]).unbind(2)
    gate1, gate2, scale1, scale2, shift1, shift2 = vectors
    normed = F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)
    x = x + site(normed.mul(scale1.add(1)).add_(shift1)).mul_(gate1)
    normed = F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)
    mixed: Tensor = x + block.ffn(normed.mul(scale2.add(1)).add_(shift2)).mul(gate2)
    return mixed


def plain_decoder(vae: VQVAE) -> VQVAE:
    """The same weights in the layout and with the norms that torch has by default."""
    plain = copy.deepcopy(vae)
    for module in plain.modules():
        if isinstance(module, Norm):
            module.__class__ = nn.GroupNorm
        for parameter in module.parameters(recurse=False):
            parameter.data = parameter.data.contiguous()
    return plain
