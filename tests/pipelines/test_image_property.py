"""Any list of scales, any batch, any kernel: cached scales are the plain forward, and all pages come back."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from streamgen.attention.registry import kernels
from streamgen.kv.arena import Arena
from streamgen.models.var import VarConfig
from streamgen.models.vqvae_scales import as_map
from streamgen.pipelines.image_memory import ScaleMemory, memory_bytes
from tests.models.var_oracle import teacher_forced
from tests.pipelines.image_models import make_var, var_config

RUN_HERE = ("reference", "sdpa", "segments", "flex")


@st.composite
def models(draw: st.DrawFn) -> tuple[VarConfig, int, int]:
    """Sizes, sequences, a seed."""
    sides = draw(st.sets(st.integers(1, 7), min_size=2, max_size=5))
    config = replace(
        var_config(tuple(sorted(sides)), shared=draw(st.booleans())),
        depth=draw(st.integers(1, 3)),
        heads=draw(st.sampled_from([1, 2, 4])),
    )
    return config, draw(st.integers(1, 3)), draw(st.integers(0, 2**16))


@pytest.mark.parametrize("kernel", RUN_HERE)
@settings(max_examples=12, deadline=None)
@given(sizes=models())
@torch.no_grad()
def test_cached_scales_equal_the_plain_forward_for_any_list_of_scales(
    kernel: str, sizes: tuple[VarConfig, int, int]
) -> None:
    config, sequences, seed = sizes
    rng, arena, model = torch.Generator().manual_seed(seed), Arena(), make_var(config, seed)
    labels = torch.randint(config.classes + 1, (sequences,), generator=rng)
    maps = [torch.randn(sequences, config.channels, side, side, generator=rng) for side in config.patches[1:]]
    condition, seen = model.condition(labels), list[Tensor]()
    with ScaleMemory(config, torch.float32, arena, kernels()[kernel], sequences) as memory:
        for scale in range(config.scales):
            x = model.embed(scale, maps[scale - 1]) if scale else model.first(condition)
            with memory.scale(scale) as attends:
                seen.append(model(x, condition, attends))
            memory.pool.check()
            memory.layer.check()
        assert arena.held == sum(memory_bytes(config, torch.float32, sequences).values())
        assert {cache.tokens for cache in memory.caches} == {config.stored_tokens}
    assert arena.held == 0
    torch.testing.assert_close(torch.cat(seen, 1), teacher_forced(model, labels, maps), atol=2e-5, rtol=1e-5)


@given(st.integers(1, 9))
@settings(deadline=None)
def test_maps_and_rows_of_tokens_are_the_same_thing(side: int) -> None:
    rows = torch.arange(side * side * 2.0).view(1, side * side, 2)
    assert torch.equal(as_map(rows).flatten(2).transpose(1, 2), rows)
