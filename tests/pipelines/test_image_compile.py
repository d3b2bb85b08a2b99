"""Compiled blocks make the same pictures with a bounded number of graphs."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch._dynamo.utils import counters

from streamgen.models.vqvae import VQVAE
from streamgen.pipelines.image import ImagePipeline, Preview
from tests.pipelines.image_models import make_var, make_vqvae, var_config

PATCHES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def pipeline(kernel: str, vae: VQVAE) -> ImagePipeline:
    return ImagePipeline(make_var(replace(var_config(PATCHES), depth=3)), vae, attention=kernel)


def finish(pipe: ImagePipeline, seed: int) -> Preview:
    *_, done = pipe.stream([1, 2], seeds=seed, cfg=2.0)
    return done


@pytest.mark.parametrize("kernel", ["sdpa", "segments"])
def test_compiled_blocks_make_the_same_pictures_with_few_graphs(kernel: str) -> None:
    vae = make_vqvae()
    plain, compiled = pipeline(kernel, vae), pipeline(kernel, vae)
    for block in compiled.model.layers:
        block.compile(backend="eager", fullgraph=True)
    assert torch.equal(finish(compiled, 0).tokens, finish(plain, 0).tokens)
    graphs = counters["stats"]["unique_graphs"]
    assert graphs <= 6
    assert torch.equal(finish(compiled, 1).tokens, finish(plain, 1).tokens)
    assert counters["stats"]["unique_graphs"] == graphs
