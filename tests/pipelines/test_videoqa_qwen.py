"""Qwen2.5-VL and Qwen3-VL through the whole pipeline, from a folder to a saved session."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import streamgen as sg
from streamgen.errors import UsageError
from streamgen.pipelines.videoqa import VideoQAPipeline
from tests.pipelines.videoqa_models import frames, qwen_checkpoint


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_a_qwen_model_watches_forgets_answers_and_goes_on(family: str, tmp_path: Path) -> None:
    folder = qwen_checkpoint(tmp_path / "model", family)
    qa = VideoQAPipeline.from_pretrained(folder, memory=sg.Hermes(16))
    with qa.open() as session:
        seen = list(session.watch(frames(8)))
        assert seen[-1].eviction is not None
        budget = session.room.room.prompt + 16
        assert session.stats.tokens == (budget,) * qa.parts.vlm.layers
        session.save(tmp_path / "kept")
        with qa.load(tmp_path / "kept") as loaded:
            list(loaded.watch(frames(4, seed=1)))
            list(session.watch(frames(4, seed=1)))
            assert "".join(loaded.ask("what is seen?")) == "".join(session.ask("what is seen?"))
    assert qa.parts.arena.held == 0


def test_a_qwen_model_has_to_be_told_how_large_its_pictures_may_get(tmp_path: Path) -> None:
    folder = qwen_checkpoint(tmp_path / "model", "qwen2_5_vl")
    text = (folder / "streamgen.json").read_text().replace('"frame_tokens": 16', '"frame_tokens": null')
    (folder / "streamgen.json").write_text(text)
    with pytest.raises(UsageError, match="frame_tokens"):
        VideoQAPipeline.from_pretrained(folder)


def test_half_precision_forgets_the_same_way(tmp_path: Path) -> None:
    """Rounding may swap tokens whose scores are nearly alike; one of 41 in a layer, of eight models."""
    folder = qwen_checkpoint(tmp_path / "model", "qwen3_vl")
    (full, exact), (half, rounded) = (
        _kept_and_said(folder, dtype) for dtype in (torch.float32, torch.bfloat16)
    )
    for layer, (kept, other) in enumerate(zip(full, half, strict=True)):
        assert len(kept) == len(other) == 41
        assert len(kept & other) >= 39, f"layer {layer}"
    assert torch.cosine_similarity(exact, rounded, dim=0) > 0.999


def _kept_and_said(folder: Path, dtype: torch.dtype) -> tuple[list[set[tuple[int, ...]]], Tensor]:
    """Positions that each layer remembers of eight frames, and the logits [V] of an answer's first token."""
    qa = VideoQAPipeline.from_pretrained(folder, memory=sg.Hermes(40), dtype=dtype)
    with qa.open() as session:
        list(session.watch(frames(8)))
        assert session.room.pool.geometry.dtype == dtype
        assert len(session.evictions) == 2
        stream = session.room.stream
        kept = [{tuple(place) for place in table.positions.tolist()} for table in stream.cache.tables]
        hidden = stream.feed(qa.parts.vlm.words(qa.parts.encode(" what is seen? ")))
        return kept, qa.parts.vlm.logits(hidden).float()
