"""Tiny random language models of every supported family, and hypernetworks for them."""

from typing import Any

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from streamgen.models.doc_lora import DocLoraConfig, HyperNetwork, Target
from streamgen.models.doc_lora_chunks import Affixes
from streamgen.models.doc_lora_loading import Loaded

FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaForCausalLM, LlamaConfig, {"attention_bias": True}),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": 8}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"attention_bias": True}),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config, {"sliding_window": 8, "query_pre_attn_scalar": 8}),
}
SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
AFFIXES = Affixes((2, 3), (4,))


def language_model(family: str = "qwen3", seed: int = 0, **changes: Any) -> Any:
    """A stock model whose weights are all random, biases and norms included."""
    kind, config, own = FAMILIES[family]
    model = kind(config(**{**SIZES, **own, **changes})).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        centre = 1.0 if name.endswith("norm.weight") and family != "gemma2" else 0.0
        spread = weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.2
        weight.copy_(torch.randn(weight.shape, generator=generator) * spread + centre)
    return model


def config(**changes: Any) -> DocLoraConfig:
    fields: dict[str, Any] = {
        "layers": 3,
        "width": 32,
        "latent": 8,
        "queries": 3,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "mlps": 1,
        "rank": 2,
        "alpha": 4.0,
        "targets": (Target("down_proj", 40, 32),),
        "heads": 4,
        "kv_heads": 2,
        "bias": True,
        "head_dim": 4,
    }
    return DocLoraConfig(**{**fields, **changes})


def hypernetwork(seed: int = 0, **changes: Any) -> HyperNetwork:
    """One that has an effect: every weight is random."""
    network = HyperNetwork(config(**changes)).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in network.named_parameters():
        centre = 1.0 if "norm" in name or name.endswith((".0.weight", ".4.weight")) else 0.0
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + centre)
    return network


def loaded(**changes: Any) -> Loaded:
    return Loaded(hypernetwork(**changes), None, AFFIXES)
