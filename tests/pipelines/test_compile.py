"""Compiled blocks stream: the same numbers, and no new graph once the window is full."""

from collections.abc import Iterator

import pytest
import torch
from peft import LoraConfig
from torch._dynamo.utils import counters

from streamgen.models.wan import CausalWan
from tests.models import tiny
from tests.pipelines.streams import advance, open_stream, prompt

WINDOW, SINK, CHUNKS = 2, 1, 9


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("kernel", ["sdpa", "segments"])
def test_compiled_blocks_give_the_same_stream_with_few_graphs(kernel: str) -> None:
    plain = open_stream(WINDOW, SINK, attention=kernel, model=CausalWan(tiny.transformer(num_layers=6)))
    compiled = open_stream(WINDOW, SINK, attention=kernel, model=CausalWan(tiny.transformer(num_layers=6)))
    compiled.model.transformer.compile_repeated_blocks(backend="eager", fullgraph=True)
    text, graphs = plain.model.text(prompt()), list[int]()
    for index in range(CHUNKS):
        expected = advance(plain, text, index, 1)
        torch.testing.assert_close(advance(compiled, text, index, 1), expected, atol=1e-5, rtol=1e-5)
        graphs.append(counters["stats"]["unique_graphs"])
    full = WINDOW + SINK
    assert graphs[-1] == graphs[full]
    assert graphs[-1] <= 4


def test_compiled_blocks_with_a_lora_stream_too() -> None:
    def adapted() -> CausalWan:
        transformer = tiny.transformer()
        transformer.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_k"], init_lora_weights=False))
        return CausalWan(transformer)

    torch.manual_seed(5)
    plain = open_stream(WINDOW, SINK, model=adapted())
    torch.manual_seed(5)
    compiled = open_stream(WINDOW, SINK, model=adapted())
    compiled.model.transformer.compile_repeated_blocks(backend="eager")
    text = plain.model.text(prompt())
    for index in range(5):
        expected = advance(plain, text, index, 1)
        torch.testing.assert_close(advance(compiled, text, index, 1), expected, atol=1e-5, rtol=1e-5)
