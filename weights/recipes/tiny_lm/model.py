"""Both models: stock `LlamaForCausalLM` with as many key heads as query heads, so that they can be pooled."""

from transformers import LlamaConfig, LlamaForCausalLM

from .text import END, LIMIT, PAD

SIZES = {"lm": (128, 4, 4, 352), "draft": (48, 2, 2, 112)}  # width, layers, heads, feed-forward


def model(kind: str, vocabulary: int) -> LlamaForCausalLM:
    width, layers, heads, inner = SIZES[kind]
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=LIMIT,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=END, pad_token_id=PAD,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    made = LlamaForCausalLM(config)
    made.generation_config.eos_token_id, made.generation_config.pad_token_id = END, PAD
    return made
