"""Watching and asking on a GPU."""

from pathlib import Path

import pytest
import torch

import streamgen as sg
from streamgen.pipelines.videoqa import VideoQAPipeline
from tests.pipelines.videoqa_models import checkpoint, frames, tokens_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_remembers_what_a_cpu_remembers(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    near = VideoQAPipeline.from_pretrained(folder, memory=sg.Hermes(64))
    far = VideoQAPipeline.from_pretrained(folder, memory=sg.Hermes(64), device="cuda", dtype=dtype)
    with near.open() as session, far.open() as twin:
        for one in (session, twin):
            list(one.watch(frames(4)))
        room = 1e-3 if dtype == torch.float32 else 0.2
        for (k, v, places), (k2, v2, places2) in zip(tokens_of(session), tokens_of(twin), strict=True):
            assert (places == places2).all()
            assert (k - k2.float().cpu()).norm() < room * k.norm()
            assert (v - v2.float().cpu()).norm() < room * v.norm()


def test_bytes_on_a_gpu_stay_the_same_for_ever(tmp_path: Path) -> None:
    qa = VideoQAPipeline.from_pretrained(checkpoint(tmp_path / "model"), memory=sg.Hermes(64), device="cuda")
    taken = []
    with qa.open() as session:
        for _ in session.watch(frames(60)):
            "".join(session.ask("what is seen?"))
            taken.append(torch.cuda.memory_allocated())
    assert max(taken[10:]) <= max(taken[:10])
    assert qa.parts.arena.held == 0
