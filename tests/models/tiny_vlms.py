"""Tiny random vision-language models of the three families, as they come and streaming."""

from copy import deepcopy
from functools import cache
from typing import Any

import torch
from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    SiglipVisionConfig,
)

from streamgen.models.vlm import StreamingVLM
from streamgen.models.vlm_families import Vision
from streamgen.models.vlm_loading import streaming
from streamgen.models.vlm_pixels import Pixels

LAYERS = 6
TEXT: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}
PIXELS = Pixels(None, (0.5,) * 3, (0.5,) * 3)
FRAME_TOKENS = 6  # of two frames, at most


def llava(**text: Any) -> Any:
    vision = SiglipVisionConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=24,
        patch_size=6,
        vision_use_head=False,
    )
    config = LlavaOnevisionConfig(
        vision_config=vision,
        text_config=Qwen2Config(
            **{**TEXT, **text}, rope_parameters={"rope_type": "default", "rope_theta": 1e4}
        ),
        image_token_index=60,
        video_token_index=61,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    )
    return LlavaOnevisionForConditionalGeneration(config)


def qwen25(**text: Any) -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "tokens_per_second": 2,
        "window_size": 16,
        "out_hidden_size": 64,
        "fullatt_block_indexes": [1],
    }
    ids = {"image_token_id": 60, "video_token_id": 61, "vision_start_token_id": 62, "vision_end_token_id": 63}
    config = Qwen2_5_VLConfig(
        text_config={**TEXT, **text, "rope_parameters": rope}, vision_config=vision, **ids
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def qwen3(**text: Any) -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    vision = {
        "depth": 3,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 64,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0, 1],
    }
    ids = {"image_token_id": 60, "video_token_id": 61, "vision_start_token_id": 62, "vision_end_token_id": 63}
    config = Qwen3VLConfig(
        text_config={**TEXT, **text, "head_dim": 16, "rope_parameters": rope}, vision_config=vision, **ids
    )
    return Qwen3VLForConditionalGeneration(config)


MAKERS = {"llava_onevision": llava, "qwen2_5_vl": qwen25, "qwen3_vl": qwen3}


def encode(text: str) -> list[int]:
    """Any text as ids of this vocabulary."""
    return [3 + ord(letter) % 50 for letter in text]


@cache
def pair(family: str) -> tuple[Any, StreamingVLM, Vision]:
    """The stock model, and a streaming one of the same weights with its eyes."""
    torch.manual_seed(0)
    stock = MAKERS[family]().eval()
    with torch.no_grad():
        for parameter in stock.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)  # sharp enough that attention matters
    twin = deepcopy(stock)
    vlm, vision = streaming(twin.eval(), PIXELS, FRAME_TOKENS, encode)
    return stock, vlm, vision
