"""The two attention processors that make a stock Wan block stateless and streaming.

A stock block hands its processors only `encoder_hidden_states` and `rotary_emb`, so these two carry what a
chunk needs: the text keys and values of the layer, and a `Site`.
Shapes: B streams, T tokens, N text rows, H heads, D head dim.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional

from streamgen.models.attend import Attend
from streamgen.models.wan_rope import Rope


@dataclass(frozen=True)
class Site:
    """What the self-attention of one block needs beside its tokens."""

    rope: Rope
    attend: Attend


class StreamingSelfAttention:
    """Self-attention through the `Attend` it is handed; keys are turned before they are remembered."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: Site | None = None,
    ) -> Tensor:
        if not isinstance(rotary_emb, Site):
            raise TypeError(
                "This transformer streams: call the CausalWan that holds it; "
                "for the plain bidirectional forward load the model once more."
            )
        query = rotary_emb.rope.turn(_heads(attn, attn.norm_q(attn.to_q(hidden_states))))
        key, value = self_key_value(attn, hidden_states, rotary_emb.rope)
        return _out(attn, rotary_emb.attend(query, key, value))


class StreamingCrossAttention:
    """Cross-attention over text keys and values that were computed once for the prompt."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        rotary_emb: Site | None = None,
    ) -> Tensor:
        query = _heads(attn, attn.norm_q(attn.to_q(hidden_states)))
        shape = (query.shape[0], -1, -1, -1)
        key, value = (part.expand(shape) for part in encoder_hidden_states)
        answer = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        )
        return _out(attn, answer.transpose(1, 2))


def self_key_value(attn: Any, hidden_states: Tensor, rope: Rope) -> tuple[Tensor, Tensor]:
    """Keys, normed and turned, and values [B, T, H, D] of tokens [B, T, dim]."""
    key = rope.turn(_heads(attn, attn.norm_k(attn.to_k(hidden_states))))
    return key, _heads(attn, attn.to_v(hidden_states))


def text_key_value(attn: Any, text: Tensor) -> tuple[Tensor, Tensor]:
    """Keys, normed, and values [B, N, H, D] of embedded text [B, N, dim]."""
    return _heads(attn, attn.norm_k(attn.to_k(text))), _heads(attn, attn.to_v(text))


def _heads(attn: Any, x: Tensor) -> Tensor:
    return x.unflatten(2, (attn.heads, -1))


def _out(attn: Any, x: Tensor) -> Tensor:
    project, dropout = attn.to_out
    out: Tensor = dropout(project(x.flatten(2)))
    return out
