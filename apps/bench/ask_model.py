"""A LLaVA-OneVision of random weights and chosen size, so that memories are timed without a download."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlavaOnevisionConfig, LlavaOnevisionForConditionalGeneration

import streamgen as sg
from streamgen.models.vlm_loading import streaming
from streamgen.models.vlm_pixels import Pixels
from streamgen.pipelines.videoqa_memory import Memory
from streamgen.pipelines.videoqa_parts import QAParts
from streamgen.pipelines.videoqa_settings import Guidance, VideoQASettings

WORDS = 4096


@dataclass(frozen=True)
class Size:
    """Widths and depths of the language side and of the eyes."""

    layers: int
    width: int
    inner: int  # width inside a block
    heads: int
    key_heads: int
    eyes: int  # layers
    eye_width: int
    side: int  # of a picture, in pixels; patches are 16 wide and four become a token
    chunk: int  # frames
    budget: int  # video tokens


# In `mid` 20 chunks beyond the budget make a full memory eleven times as long as it, and what a question
# costs there is reading the past. In `wide` it is reading the weights, which no memory can save.
SIZES = {
    "mid": Size(10, 256, 672, 4, 2, 1, 128, 448, 5, 1960),
    "wide": Size(12, 512, 2048, 8, 2, 2, 192, 224, 4, 784),
    "tiny": Size(4, 64, 256, 4, 2, 1, 32, 64, 2, 24),
}


class Words:
    """A tokenizer without a vocabulary: a word is a number, and back."""

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [2 + sum(word.encode()) % (WORDS - 2) for word in text.split()]}

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return " ".join(f"w{number}" for number in ids)


def pipeline(size: Size, memory: Memory, dtype: torch.dtype, attention: str) -> sg.VideoQAPipeline:
    """The pipeline over such a model; the weights are the same in every run."""
    torch.manual_seed(0)
    model = LlavaOnevisionForConditionalGeneration(_config(size)).to(dtype).eval()
    vlm, vision = streaming(model, Pixels(None, (0.5,) * 3, (0.5,) * 3), None, _encode)
    settings = VideoQASettings(
        fps=1.0, chunk=size.chunk, budget=size.budget, prompt="you are a helpful assistant",
        question="{question} <|im_end|> <|im_start|> assistant", choice="{question} {options}",
        answer_tokens=8, repetition_penalty=1.0, guidance=Guidance(), frame_tokens=None,
    )  # fmt: skip
    parts = QAParts("random", vlm, vision, Words(), frozenset(), settings, attention, sg.CachePool())
    return sg.VideoQAPipeline(parts, memory)


def _encode(text: str) -> list[int]:
    return Words()(text, add_special_tokens=False)["input_ids"]


def _config(size: Size) -> LlavaOnevisionConfig:
    text: dict[str, Any] = {
        "model_type": "qwen2", "hidden_size": size.width, "intermediate_size": size.inner,
        "num_hidden_layers": size.layers, "num_attention_heads": size.heads, "vocab_size": WORDS,
        "num_key_value_heads": size.key_heads, "max_position_embeddings": 32768,
    }  # fmt: skip
    eyes: dict[str, Any] = {
        "model_type": "siglip_vision_model", "hidden_size": size.eye_width, "image_size": size.side,
        "intermediate_size": 4 * size.eye_width, "num_hidden_layers": size.eyes, "patch_size": 16,
        "num_attention_heads": 4, "vision_use_head": False,
    }  # fmt: skip
    return LlavaOnevisionConfig(
        text_config=text, vision_config=eyes, image_token_index=0, video_token_index=1,
        vision_feature_layer=-1, vision_feature_select_strategy="full",
    )  # fmt: skip
