"""The recorded HERMES runs: the tiny model, and a stream on it that is driven as the recording says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import LlavaOnevisionForConditionalGeneration, PreTrainedTokenizerFast

from streamgen.kv.arena import Arena
from streamgen.kv.hierarchical import Depth, Hierarchical
from streamgen.kv.pool import PagePool
from streamgen.models.vlm import StreamingVLM
from streamgen.models.vlm_families import Vision
from streamgen.models.vlm_loading import streaming
from streamgen.models.vlm_pixels import Pixels
from streamgen.pipelines.videoqa_memory import Room, geometry
from streamgen.pipelines.videoqa_settings import Guidance
from streamgen.pipelines.videoqa_stream import LayeredStream
from tests.golden.fixtures import ROOT, Golden

FOLDER = ROOT / "hermes"


@cache
def video() -> dict[str, torch.Tensor]:
    return load_file(FOLDER / "model" / "video.safetensors")


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "model" / "tokenizer.json"))


def encode(text: str) -> list[int]:
    ids: list[int] = tokenizer()(text, add_special_tokens=False)["input_ids"]
    return ids


@cache
def model(dtype: torch.dtype = torch.float32) -> tuple[StreamingVLM, Vision]:
    stock = LlavaOnevisionForConditionalGeneration.from_pretrained(FOLDER / "model", dtype=dtype)
    return streaming(stock.eval(), Pixels(None, (0.5,) * 3, (0.5,) * 3), None, encode)


@cache
def recording(path: Path) -> Golden:
    """A recorded run; its tensors lie beside it under the same name."""
    return Golden(path, json.loads(path.read_text()), load_file(path.with_suffix(".safetensors")))


def memory(facts: dict[str, Any]) -> Hierarchical:
    """As the recording was made: the released code, or its trigger and the paper's blend."""
    released = facts["mid_layer_blend"].startswith("alpha = 1.0")
    return Hierarchical(facts["kv_size"], compat="b505d95" if released else None)


@contextmanager
def stream(facts: dict[str, Any]) -> Iterator[LayeredStream]:
    """A stream that has read the system prompt."""
    vlm, _ = model()
    prompt = facts["steps"][0]["ids"]
    room = Room.of(memory(facts), len(prompt), 8 * 16, 64, 0, vlm.limit)
    with PagePool(Arena(), geometry(vlm, torch.float32), room.pages(vlm.layers)) as pool:
        made = LayeredStream(vlm, pool.cache(memory(facts)), "auto")
        made.feed(vlm.words(prompt))
        made.prompt = len(prompt)
        yield made
        pool.check()


def guide(question: str | None, answer: str) -> dict[Depth, torch.Tensor]:
    """What layers are guided by after this question."""
    local, mixed, overall = Guidance().texts(question, answer)
    vlm, _ = model()
    texts: dict[Depth, str] = {"shallow": local, "middle": mixed, "deep": overall}
    return {depth: vlm.words(encode(text)).embeds for depth, text in texts.items()}
