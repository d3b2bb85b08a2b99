"""A vision-language checkpoint as transformers writes it, ready to stream."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlavaOnevisionForConditionalGeneration,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLForConditionalGeneration,
)

from streamgen.errors import UsageError
from streamgen.models.vlm import StreamingVLM
from streamgen.models.vlm_families import Encode, LlavaVision, Qwen3Vision, QwenVision, Vision
from streamgen.models.vlm_pixels import Pixels

KINDS: dict[str, Any] = {
    "llava_onevision": LlavaOnevisionForConditionalGeneration,
    "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration,
    "qwen3_vl": Qwen3VLForConditionalGeneration,
}


def load_vlm(
    folder: Path, dtype: torch.dtype, device: str, frame_tokens: int | None, encode: Encode
) -> tuple[StreamingVLM, Vision]:
    """The language and the vision side of a checkpoint folder; every weight has to be there."""
    kind = model_type(folder)
    model, told = KINDS[kind].from_pretrained(
        folder, dtype=dtype, local_files_only=True, output_loading_info=True
    )
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if told[what]:
            raise UsageError(
                f"{folder} does not fit {kind}: {what.replace('_', ' ')} "
                f"{', '.join(sorted(map(str, told[what])))}; take the whole checkpoint."
            )
    return streaming(model.eval().to(device), Pixels.load(folder), frame_tokens, encode)


def model_type(folder: Path) -> str:
    """The family that config.json names, or a refusal."""
    path = Path(folder) / "config.json"
    kind = json.loads(path.read_text(encoding="utf-8")).get("model_type") if path.is_file() else None
    if kind not in KINDS:
        raise UsageError(
            f"{folder} holds no vision-language model that can stream: its model_type is {kind!r}; "
            f"known are {', '.join(KINDS)}."
        )
    return str(kind)


def streaming(
    model: Any, pixels: Pixels, frame_tokens: int | None, encode: Encode
) -> tuple[StreamingVLM, Vision]:
    """Both sides of a loaded model; from here on it attends through the `Attend`s of each call only."""
    kind = model.config.model_type
    vlm = StreamingVLM(model, axes=1 if kind == "llava_onevision" else 3)
    if kind == "llava_onevision":
        return vlm, LlavaVision(vlm, pixels)
    eyes = Qwen3Vision if kind == "qwen3_vl" else QwenVision
    return vlm, eyes(vlm, pixels, frame_tokens, encode)
