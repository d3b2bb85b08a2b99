"""Tiny random language models of every supported family, as transformers makes them."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from streamgen.models.lm import LanguageModel

VOCABULARY = 61
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # answers that do not hang on rounding
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
FAMILIES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SMALL)),
    "llama_mqa": (LlamaForCausalLM, LlamaConfig(**{**SMALL, "num_key_value_heads": 1})),
    "mistral": (MistralForCausalLM, MistralConfig(**SMALL, sliding_window=8)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SMALL)),
    "qwen2_sliding": (
        Qwen2ForCausalLM,
        Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=8, max_window_layers=1),
    ),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SMALL, head_dim=16)),
    "gemma2": (
        Gemma2ForCausalLM,
        Gemma2Config(
            **SMALL, head_dim=16, query_pre_attn_scalar=20, sliding_window=8, attn_logit_softcapping=2.0
        ),
    ),
    "gemma3": (
        Gemma3ForCausalLM,
        Gemma3TextConfig(**SMALL, head_dim=16, query_pre_attn_scalar=20, sliding_window=8, layer_types=MIXED),
    ),
}


def stock(family: str, seed: int = 0, **changes: Any) -> Any:
    """A random model as it comes, with eager attention, which honours everything."""
    kind, config = FAMILIES[family]
    config = deepcopy(config)
    for name, value in changes.items():
        setattr(config, name, value)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    return kind(config).eval().requires_grad_(False)


def pair(family: str, seed: int = 0) -> tuple[Any, LanguageModel]:
    """The same random weights twice: stock and streaming."""
    return stock(family, seed), LanguageModel(stock(family, seed))


def saved(folder: Path, family: str = "qwen2", seed: int = 0) -> Path:
    """The same model as a folder."""
    stock(family, seed).save_pretrained(folder)
    return folder
