"""Attends are arguments of a compiled block: one set of graphs for all layers and for ever."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from streamgen.attention import Attend, Kernel, kernels
from streamgen.kv import Arena, Causal, Geometry, Mask, PagePool, SinkWindow

LAYERS, HEADS, HEAD_DIM, TOKENS, WINDOW = 3, 2, 8, 3, 9
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


class Block(nn.Module):
    """A stock block: it knows nothing of caches but takes an attend."""

    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Linear(16, 3 * HEADS * HEAD_DIM)
        self.outward = nn.Linear(HEADS * HEAD_DIM, 16)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        q, k, v = self.inward(x).unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(2)
        return x + self.outward(attend(q, k, v).flatten(2))


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def blocks(backend: str | None, layers: int = LAYERS) -> list[nn.Module]:
    torch.manual_seed(3)
    made = [Block() for _ in range(layers)]
    if backend is not None:
        for block in made:
            block.compile(backend=backend, fullgraph=True)
    return list(made)


def stream(
    model: list[nn.Module],
    kernel: Kernel,
    chunks: int,
    tokens: int = TOKENS,
    mask: Mask | None = None,
    ring: bool = True,
) -> tuple[list[Tensor], list[int]]:
    """What a model answers chunk by chunk, two passes each, and the number of graphs after each chunk."""
    pool = PagePool(Arena(), Geometry(len(model), HEADS, HEAD_DIM, page_size=4), 12)
    cache = pool.cache(SinkWindow(WINDOW), reserve=WINDOW) if ring else pool.cache()
    generator = torch.Generator().manual_seed(0)
    answers, graphs = [], []
    for _ in range(chunks):
        with cache.stage(tokens, mask) as stage:
            attends = kernel.plan([stage], HEADS)
            for _ in range(2):
                x = torch.randn(1, tokens, 16, generator=generator)
                for block, attend in zip(model, attends, strict=True):
                    x = block(x, attend)
            stage.commit()
        answers.append(x)
        graphs.append(counters["stats"]["unique_graphs"])
    return answers, graphs


@pytest.mark.parametrize("name", ["sdpa", "segments"])
def test_neither_more_layers_nor_a_longer_stream_need_more_graphs(name: str) -> None:
    _, graphs = stream(blocks("eager", layers=5), kernels()[name], chunks=9)
    full = WINDOW // TOKENS
    assert graphs[0] == 1, "one graph serves all layers"
    assert graphs[-1] == graphs[full - 1] <= 2, "one more serves every length"


@pytest.mark.parametrize(
    ("name", "tokens", "mask", "ring"),
    [
        ("sdpa", 3, None, True),
        ("sdpa", 1, Causal(), True),
        ("sdpa", 3, Causal(), False),
        ("segments", 3, Causal(), False),
        ("reference", 3, None, True),
    ],
)
def test_a_traced_block_answers_like_an_untraced_one(
    name: str, tokens: int, mask: Mask | None, ring: bool
) -> None:
    """aot_eager takes inputs and in-place writes apart as the real compilers do."""
    plain, _ = stream(blocks(None), kernels()[name], 5, tokens, mask, ring)
    traced, graphs = stream(blocks("aot_eager"), kernels()[name], 5, tokens, mask, ring)
    torch.testing.assert_close(traced, plain)
    assert graphs[-1] <= 3


def test_flex_is_traced_into_the_block_with_its_masks() -> None:
    plain, _ = stream(blocks(None), kernels()["flex"], 3, ring=False)
    traced, _ = stream(blocks("eager"), kernels()["flex"], 3, ring=False)
    torch.testing.assert_close(traced, plain)
