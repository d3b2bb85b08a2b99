"""What the sessions of a video-question pipeline share: loaded once, keeps nothing of any stream."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from streamgen.kv.arena import Arena
from streamgen.models.vlm import StreamingVLM
from streamgen.models.vlm_families import Vision
from streamgen.models.vlm_loading import load_vlm
from streamgen.pipelines.videoqa_settings import VideoQASettings


@dataclass(frozen=True)
class QAParts:
    """The model's two sides, its tokenizer, and the budget that memories draw on."""

    name: str
    vlm: StreamingVLM
    vision: Vision
    tokenizer: Any
    stops: frozenset[int]  # tokens that end an answer
    settings: VideoQASettings
    attention: str
    arena: Arena

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def load_parts(
    folder: Path,
    name: str,
    settings: VideoQASettings,
    device: str,
    dtype: torch.dtype,
    attention: str,
    arena: Arena,
) -> QAParts:
    """Every part of a checkpoint folder, on its device."""
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    vlm, vision = load_vlm(
        folder,
        dtype,
        device,
        settings.frame_tokens,
        lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
    )
    return QAParts(name, vlm, vision, tokenizer, _stops(folder, vlm, tokenizer), settings, attention, arena)


def _stops(folder: Path, vlm: StreamingVLM, tokenizer: Any) -> frozenset[int]:
    """The ends of text that the generation config and the tokenizer name."""
    path = folder / "generation_config.json"
    ends = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id") if path.is_file() else None
    listed = ends if isinstance(ends, list) else [ends]
    return frozenset(end for end in (*listed, tokenizer.eos_token_id) if end is not None)
