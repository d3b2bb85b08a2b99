"""Plans of models that watch: the pipeline over a model without weights says what its sessions reserve."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights

from streamgen.kv.arena import Arena
from streamgen.models.vlm_loading import KINDS, model_type, streaming
from streamgen.models.vlm_pixels import Pixels
from streamgen.pipelines.videoqa import VideoQAPipeline
from streamgen.pipelines.videoqa_memory import PAGE, geometry, named
from streamgen.pipelines.videoqa_parts import QAParts
from streamgen.pipelines.videoqa_settings import VideoQASettings
from streamgen.runtime.memory import cache_pool, weights_of
from streamgen.runtime.plan import Plan, dense_cache


def rehearsed_videoqa(folder: Path, dtype: torch.dtype, budget: int | None) -> tuple[dict[str, object], Plan]:
    """One session with the memory of HERMES, of so many video tokens or of the checkpoint's."""
    from transformers import AutoTokenizer

    settings = VideoQASettings.load(folder)
    tokens = settings.budget if budget is None else budget
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    hollow = _hollow(folder, dtype)
    vlm, vision = streaming(hollow, Pixels.load(folder), settings.frame_tokens, partial(_ids, tokenizer))
    parts = QAParts(folder.name, vlm, vision, tokenizer, frozenset(), settings, "auto", Arena(device="meta"))
    room = VideoQAPipeline(parts, named("hermes", tokens)).room()
    pool = cache_pool(geometry(vlm, dtype), room.pages(vlm.layers, PAGE))
    formula = dense_cache(vlm.layers, vlm.kv_heads, vlm.head_dim, room.prompt + room.video, 1, dtype)
    settled: dict[str, object] = {"memory_policy": "hermes", "video_tokens": tokens, "prompt": room.prompt}
    return settled, Plan(1, formula, (weights_of(hollow),), (pool,), ())


def _hollow(folder: Path, dtype: torch.dtype) -> Any:
    """The stock model on the meta device."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    with init_empty_weights():
        model = KINDS[model_type(folder)]._from_config(config, dtype=dtype).eval()
    model.tie_weights()
    return model


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
