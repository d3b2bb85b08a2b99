"""Tiny video-question checkpoints of random weights, and streams for them."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgen.pipelines.videoqa import VideoQASession
from tests.golden.fixtures import ROOT
from tests.models.tiny_vlms import MAKERS

FRAME = 16  # tokens of a frame of this model
SETTINGS: dict[str, Any] = {
    "pipeline": "videoqa",
    "fps": 2,
    "chunk": 2,
    "budget": 64,
    "prompt": "<|im_start|>system \nYou are a helpful assistant.<|im_end|><|im_start|>user ",
    "question": "\n{question}<|im_end|><|im_start|>assistant\n",
    "answer_tokens": 5,
    "repetition_penalty": 1.1,
}


def checkpoint(folder: Path, **changes: Any) -> Path:
    """The recorded tiny LLaVA-OneVision (10 layers) as a checkpoint folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (ROOT / "hermes" / "model").iterdir():
        if file.name != "video.safetensors":
            shutil.copyfile(file, folder / file.name)
    tokens = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    pixels = {"size": {"height": 28, "width": 28}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(pixels))
    (folder / "streamgen.json").write_text(json.dumps({**SETTINGS, **changes}))
    return folder


def frames(count: int, seed: int = 0, fps: float = 2) -> Iterator[tuple[npt.NDArray[np.uint8], float]]:
    """Noise that moves, with its times."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        yield rng.integers(0, 256, (20, 24, 3), dtype=np.uint8), number / fps


def qwen_checkpoint(folder: Path, family: str) -> Path:
    """A tiny random Qwen model with the same words, as a checkpoint folder."""
    folder = checkpoint(folder, frame_tokens=FRAME, prompt="watch ", question=" {question} ", answer_tokens=3)
    (folder / "model.safetensors").unlink()
    MAKERS[family](vocab_size=256).save_pretrained(folder)
    pixels = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(pixels))
    return folder


def tokens_of(session: VideoQASession) -> list[Any]:
    """Keys, values and positions of every layer."""
    return [
        (*session.room.stream.cache.read(layer), table.positions)
        for layer, table in enumerate(session.room.stream.cache.tables)
    ]


def assert_same(one: VideoQASession, other: VideoQASession) -> None:
    for (k, v, places), (k2, v2, places2) in zip(tokens_of(one), tokens_of(other), strict=True):
        assert (k == k2).all() and (v == v2).all() and (places == places2).all()
