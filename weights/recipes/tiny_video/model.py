"""Teacher forcing through the stock Wan blocks: each frame twice, clean and noisy, in one pass.

A noisy frame sees the clean sink, the clean window and itself; a clean frame sees the same past and
itself. A frame is a batch element for the stock block, so its own timestep comes for free; only attention
looks across frames.

Shapes: K copies (clean, noisy), B clips, F frames, N tokens of a frame, H heads, D head dim, S slots
(sink, window, self).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from diffusers import WanTransformer3DModel
from diffusers.models.transformers.transformer_wan import WanAttention
from einops import rearrange, repeat
from torch import Tensor

CHANNELS, PLANES, GRID = 24, 2, 16
SINK, WINDOW = 1, 3  # frames of the past that a frame sees, besides itself


def transformer(actions: int = 0) -> WanTransformer3DModel:
    """The stock model; a world has one more input plane for each action."""
    return WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=4, attention_head_dim=40, ffn_dim=640, num_layers=5,
        in_channels=CHANNELS + PLANES + actions, out_channels=CHANNELS, text_dim=64, freq_dim=64,
        rope_max_seq_len=256,
    )  # fmt: skip


def planes(size: int = GRID) -> Tensor:
    """Where a latent cell lies on the screen: y and x in [-1, 1], [2, size, size]."""
    line = torch.linspace(-1, 1, size)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"))


@dataclass(frozen=True)
class Past:
    """What each frame sees: indices [F, S-1] of clean frames, bias [B, F, S*N], rotation [B, F, S, N, D/2]
    each."""

    frames: Tensor
    bias: Tensor
    cos: Tensor
    sin: Tensor


def past(model: WanTransformer3DModel, late: Tensor, alone: Tensor, frames: int) -> Past:
    """`late` [B]: frame 0 is a distant sink and not the frame just before frame 1; `alone` [B]: no frame
    has a past."""
    tokens, dim = (GRID // 2) ** 2, model.config.attention_head_dim
    now = torch.arange(frames)
    index = torch.stack([torch.zeros_like(now), *(now - back for back in range(WINDOW, 0, -1))], 1)
    seen = index.ge(torch.tensor([0] + [SINK] * WINDOW)) & (index < now[:, None])
    bias = torch.zeros(len(late), frames, WINDOW + 2, tokens)
    bias[:, :, :-1].masked_fill_(~seen[None, :, :, None], float("-inf"))
    bias[alone, :, :-1] = float("-inf")
    slots = torch.arange(WINDOW + 2).expand(len(late), frames, -1).clone()
    slots[:, :, 0] = torch.where(late[:, None], 0, (WINDOW + 1 - now).clamp_min(0)[None])
    side = 2 * (dim // 6)
    ladder = [1e4 ** -(torch.arange(0, d, 2).double() / d) for d in (dim - 2 * side, side, side)]
    cell = torch.arange(tokens)
    angle = torch.cat(
        [
            repeat(slots[..., None] * ladder[0], "b f s d -> b f s n d", n=tokens),
            *(
                repeat(at[:, None] * ladder[i + 1], "n d -> b f s n d", b=len(late), f=frames, s=WINDOW + 2)
                for i, at in enumerate((cell // (GRID // 2), cell % (GRID // 2)))
            ),
        ],
        -1,
    )
    return Past(
        index.clamp_min(0), rearrange(bias, "b f s n -> b f (s n)"), angle.cos().float(), angle.sin().float()
    )


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).type_as(x)


class SeePast:
    """Self-attention processor: `rotary_emb` carries the Past."""

    def __call__(
        self,
        attn: WanAttention,
        hidden_states: Tensor,
        encoder_hidden_states: None,
        attention_mask: None,
        rotary_emb: Past,
    ) -> Tensor:
        clips, frames = rotary_emb.bias.shape[:2]
        q, k, v = attn.to_q(hidden_states), attn.to_k(hidden_states), attn.to_v(hidden_states)
        q, k = attn.norm_q(q), attn.norm_k(k)
        split = "(k b f) n (h d) -> k b f h n d"
        q, k, v = (rearrange(x, split, k=2, b=clips, h=attn.heads, f=frames) for x in (q, k, v))
        cos, sin = rotary_emb.cos[:, :, :, None], rotary_emb.sin[:, :, :, None]
        self_cos, self_sin = cos[:, :, -1], sin[:, :, -1]
        q, own = rotate(q, self_cos, self_sin), rotate(k, self_cos, self_sin)
        old = rotate(k[0][:, rotary_emb.frames], cos[:, :, :-1], sin[:, :, :-1])
        old, old_v = (
            repeat(x, "b f s h n d -> k b f h (s n) d", k=2) for x in (old, v[0][:, rotary_emb.frames])
        )
        keys, values = torch.cat((old, own), 4), torch.cat((old_v, v), 4)
        scores = q @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5 + rotary_emb.bias[:, :, None, None].to(
            q.dtype
        )
        out = scores.softmax(-1).to(values.dtype) @ values
        return attn.to_out[0](rearrange(out, "k b f h n d -> (k b f) n (h d)"))


class SeeText:
    """Cross-attention processor: `encoder_hidden_states` is (text rows [P, M, C], prompt of each batch
    element)."""

    def __call__(
        self, attn: WanAttention, hidden_states: Tensor, encoder_hidden_states: tuple[Tensor, Tensor],
        attention_mask: None, rotary_emb: None,
    ) -> Tensor:  # fmt: skip
        rows, prompt = encoder_hidden_states
        q, k, v = attn.norm_q(attn.to_q(hidden_states)), attn.norm_k(attn.to_k(rows)), attn.to_v(rows)
        q, k, v = (rearrange(x, "b n (h d) -> b h n d", h=attn.heads) for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k[prompt], v[prompt])
        return attn.to_out[0](rearrange(out, "b h n d -> b n (h d)"))


def teach(model: WanTransformer3DModel) -> WanTransformer3DModel:
    """Installs the training processors; the weights and their names stay the stock ones."""
    for block in model.blocks:
        block.attn1.set_processor(SeePast())
        block.attn2.set_processor(SeeText())
    return model


def predict(
    model: WanTransformer3DModel,
    clean: Tensor,
    noisy: Tensor,
    t: Tensor,
    text: Tensor,
    prompt: Tensor,
    view: Past,
    acts: Tensor | None = None,
) -> Tensor:
    """x0 for the noisy copy: clean, noisy, result [B, F, C, h, w]; t [B, F] in (0, 1]; text [P, M, E];
    prompt [K, B, F]; acts [B, F, A]."""
    clips, frames = t.shape
    both = rearrange(torch.stack((clean, noisy)), "k b f c h w -> (k b f) c 1 h w")
    where = planes(both.shape[-1])[None, :, None].expand(len(both), -1, -1, -1, -1)
    inputs = [both, where]
    if acts is not None:
        told = repeat(acts, "b f a -> (k b f) a 1 y x", k=2, y=both.shape[-2], x=both.shape[-1])
        inputs.append(told)
    x = model.patch_embedding(torch.cat(inputs, 1)).flatten(2).transpose(1, 2).contiguous()
    times = torch.stack((torch.zeros_like(t), t)).flatten() * 1000
    embed = model.condition_embedder
    temb = embed.time_embedder(embed.timesteps_proj(times))
    steps = embed.time_proj(embed.act_fn(temb)).unflatten(1, (6, -1))
    rows = embed.text_embedder(text)
    index = prompt.flatten()
    for block in model.blocks:
        x = block(x, (rows, index), steps, view)
    shift, scale = (model.scale_shift_table + temb[:, None]).chunk(2, 1)
    x = x.unflatten(0, (2, -1))[1]
    shift, scale = (s.unflatten(0, (2, -1))[1] for s in (shift, scale))
    out = model.proj_out(model.norm_out(x.float()) * (1 + scale) + shift)
    side = clean.shape[-1] // 2
    return rearrange(out.float(), "(b f) (y x) (p q c) -> b f c (y p) (x q)", b=clips, y=side, p=2, q=2)
