"""The Perceiver of Doc-to-LoRA: a document's hidden states in, a few latent vectors out.

Shapes: N sequences (layers times chunks), S document tokens, D model width, Q queries, z latent size.
The resampler is that of Idefics2 with two changes: post-norms, and keys and values of the context only.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

EPS = 1e-6
WIDER = 4  # hidden units of a gated MLP for each of its inputs


class GatedMLP(nn.Module):
    """D -> 4 D -> z, gated by SiLU, without biases."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, WIDER * width, bias=False)
        self.up_proj = nn.Linear(width, WIDER * width, bias=False)
        self.down_proj = nn.Linear(WIDER * width, out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class CrossAttention(nn.Module):
    """Grouped heads whose size has nothing to do with the latent size; no positions, no mask but padding."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.q_proj = nn.Linear(width, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)

    def forward(self, latents: Tensor, context: Tensor, mask: Tensor | None) -> Tensor:
        """[N, Q, z] looks at [N, S, z]; mask [N, S] is true where there is a token."""
        q, k, v = (
            rearrange(x, "n s (h d) -> n h s d", d=self.head_dim)
            for x in (self.q_proj(latents), self.k_proj(context), self.v_proj(context))
        )
        seen = None if mask is None else rearrange(mask, "n s -> n 1 1 s")
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.o_proj(rearrange(out, "n h q d -> n q (h d)"))


class CrossLayer(nn.Module):
    """Cross-attention and a gated MLP, each with a norm before and one after."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.input_latents_layernorm = nn.RMSNorm(width, EPS)
        self.input_context_layernorm = nn.RMSNorm(width, EPS)
        self.self_attn = CrossAttention(width, heads, kv_heads, head_dim)
        self.post_attention_layernorm = nn.RMSNorm(width, EPS)
        self.pre_ff_layernorm = nn.RMSNorm(width, EPS)
        self.mlp = GatedMLP(width, width)
        self.post_ff_layernorm = nn.RMSNorm(width, EPS)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None) -> Tensor:
        read = self.self_attn(self.input_latents_layernorm(x), self.input_context_layernorm(context), mask)
        x = x + self.post_attention_layernorm(read)
        return x + self.post_ff_layernorm(self.mlp(self.pre_ff_layernorm(x)))


class Resampler(nn.Module):
    """Learned queries that read a context of any length, layer after layer."""

    def __init__(
        self, queries: int, width: int, layers: int, heads: int, kv_heads: int, head_dim: int
    ) -> None:
        super().__init__()
        self.latents_q = nn.Parameter(torch.randn(queries, width))
        self.layers = nn.ModuleList(CrossLayer(width, heads, kv_heads, head_dim) for _ in range(layers))
        self.layernorm = nn.RMSNorm(width, EPS)

    def forward(self, context: Tensor, mask: Tensor | None = None) -> Tensor:
        """[N, S, z] -> [N, Q, z]."""
        x = self.latents_q.expand(len(context), -1, -1)
        for layer in self.layers:
            x = layer(x, context, mask)
        return self.layernorm(x)


class Perceiver(nn.Module):
    """Width D to latents z, encoded into some queries, decoded into as many as there are rows of LoRA."""

    def __init__(self, width: int, encoder: Resampler, decoder: Resampler) -> None:
        super().__init__()
        self.modality_projection = GatedMLP(width, encoder.latents_q.shape[1])
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """[N, S, D] -> [N, rows, z]."""
        return self.decoder(self.encoder(self.modality_projection(features), mask))
