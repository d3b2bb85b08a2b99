"""A stock transformers model answers through the attention it is handed, and keeps nothing itself."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from streamgen.errors import UsageError
from streamgen.models.transformers_attention import stream_attention
from tests.models.dense_attends import DenseAttend

SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
FAMILIES: dict[str, tuple[Any, Any]] = {
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SMALL)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SMALL, head_dim=16)),
    "mistral": (MistralForCausalLM, MistralConfig(**SMALL, sliding_window=None)),
    "gemma3": (
        Gemma3ForCausalLM,
        Gemma3TextConfig(**SMALL, head_dim=16, query_pre_attn_scalar=20, sliding_window=64),
    ),
}
IDS = torch.tensor([[3, 7, 11, 2, 9, 30, 8, 1, 4, 44]])


def pair(family: str) -> tuple[Any, Any]:
    """The same random weights twice: as they come, and streaming."""
    kind, config = FAMILIES[family]
    torch.manual_seed(0)
    stock = kind(config).eval()
    streaming = kind(deepcopy(config)).eval()
    streaming.load_state_dict(stock.state_dict())
    stream_attention(streaming)
    return stock, streaming


def run(model: Any, ids: torch.Tensor, start: int, attends: list[DenseAttend]) -> torch.Tensor:
    positions = torch.arange(start, start + ids.shape[1])[None]
    return model(input_ids=ids, position_ids=positions, use_cache=False, attends=attends).logits


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_streaming_model_says_what_the_stock_model_says(family: str) -> None:
    stock, streaming = pair(family)
    attends = [DenseAttend() for _ in range(3)]
    parts = [run(streaming, IDS[:, a:b], a, attends) for a, b in ((0, 4), (4, 5), (5, 10))]
    torch.testing.assert_close(torch.cat(parts, dim=1), stock(IDS).logits, atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_two_streams_on_one_model_do_not_mix() -> None:
    stock, streaming = pair("qwen2")
    other = IDS.flip(1)
    mine, yours = ([DenseAttend() for _ in range(3)] for _ in range(2))
    run(streaming, IDS[:, :5], 0, mine)
    run(streaming, other[:, :3], 0, yours)
    torch.testing.assert_close(run(streaming, IDS[:, 5:], 5, mine), stock(IDS).logits[:, 5:])
    torch.testing.assert_close(run(streaming, other[:, 3:], 3, yours), stock(other).logits[:, 3:])


def test_a_call_without_attends_is_refused() -> None:
    _, streaming = pair("qwen2")
    with pytest.raises(UsageError, match="attends="):
        streaming(IDS, use_cache=False)


def test_a_model_without_the_attention_interface_is_refused() -> None:
    class Old(GPT2LMHeadModel):
        _supports_attention_backend = False

    with pytest.raises(UsageError, match="attention interface"):
        stream_attention(Old(GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=8)))


def test_scores_that_an_attend_cannot_compute_are_refused() -> None:
    model = Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=16)).eval()
    stream_attention(model)
    with pytest.raises(UsageError, match="soft-capped"):
        run(model, IDS, 0, [DenseAttend() for _ in range(3)])
