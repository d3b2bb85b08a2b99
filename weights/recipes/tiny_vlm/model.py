"""The model: a small stock `LlavaOnevisionForConditionalGeneration`, and its pass over packed questions.

Shapes: B stories, T frames, P = 4 tokens a frame, S tokens of the system prompt, N tokens in all, D width.
"""

import torch
from torch import Tensor
from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    Qwen2Config,
    SiglipVisionConfig,
)

from .text import IMAGE, VIDEO

SIZE, PATCH, PER_FRAME = 64, 16, 4
LIMIT = 4096  # positions


def model(vocabulary: int) -> LlavaOnevisionForConditionalGeneration:
    vision = SiglipVisionConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        image_size=SIZE, patch_size=PATCH, vision_use_head=False,
    )  # fmt: skip
    text = Qwen2Config(
        vocab_size=vocabulary, hidden_size=160, intermediate_size=448, num_hidden_layers=6,
        num_attention_heads=5, num_key_value_heads=5, max_position_embeddings=LIMIT,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=3, pad_token_id=0,
    )  # fmt: skip
    config = LlavaOnevisionConfig(
        vision_config=vision, text_config=text, image_token_index=IMAGE, video_token_index=VIDEO,
        image_grid_pinpoints=[[SIZE, SIZE]], vision_feature_layer=-1, vision_feature_select_strategy="full",
        tie_word_embeddings=False,
    )  # fmt: skip
    config._attn_implementation = "eager"
    made = LlavaOnevisionForConditionalGeneration(config)
    made.generation_config.eos_token_id, made.generation_config.pad_token_id = 3, 0
    return made


def look(net: LlavaOnevisionForConditionalGeneration, frames: Tensor) -> Tensor:
    """Video tokens [B, T*P, D] of frames uint8 [B, T, 64, 64, 3], without the newline of stock videos."""
    pixels = frames.flatten(0, 1).permute(0, 3, 1, 2).float() / 127.5 - 1
    states = net.model.vision_tower(pixels, output_hidden_states=True).hidden_states[-1]
    pooled = net.model.apply_pooling(net.model.multi_modal_projector(states))
    return pooled.reshape(len(frames), -1, pooled.shape[-1])


def embed(net: LlavaOnevisionForConditionalGeneration, ids: Tensor, video: Tensor, start: int) -> Tensor:
    """Inputs [B, N, D]: words, the video tokens from `start` on, and newlines where questions have them."""
    rows = net.get_input_embeddings()(ids)
    rows = torch.where((ids == VIDEO)[..., None], net.model.image_newline, rows)
    return torch.cat([rows[:, :start], video.to(rows.dtype), rows[:, start + video.shape[1] :]], 1)


def hidden(
    net: LlavaOnevisionForConditionalGeneration, inputs: Tensor, positions: Tensor, mask: Tensor
) -> Tensor:
    """The language model's last states [B, N, D]; `mask` bool [B, N, N] says who sees whom."""
    hole = torch.zeros(mask.shape, dtype=inputs.dtype).masked_fill(~mask, torch.finfo(inputs.dtype).min)
    return net.model.language_model(
        inputs_embeds=inputs, position_ids=positions, attention_mask=hole[:, None], use_cache=False
    ).last_hidden_state
