"""torch's operator where it is given more than one look."""

import pytest
import torch

from streamgen.attention import kernels
from streamgen.attention.kernels.reference import dense_attention
from streamgen.attention.kernels.sdpa import BLOCKWISE, CAUSAL_BLOCK
from streamgen.kv import Arena, Causal, Geometry, PagePool

KV_HEADS, Q_HEADS, DIM = 2, 6, 16


@pytest.mark.parametrize("caches", [1, 2])
@pytest.mark.parametrize("tokens", [1, 127, 128, 129, 192, 301, 640, 641])
def test_a_prompt_in_blocks_sees_what_came_before(tokens: int, caches: int) -> None:
    pages = caches * (-(-tokens // 16) + 1)
    pool = PagePool(Arena(), Geometry(1, KV_HEADS, DIM, page_size=16, dtype=torch.float64), pages)
    stages = [pool.cache().stage(tokens, Causal()) for _ in range(caches)]
    [attend] = kernels()["sdpa"].plan(stages, Q_HEADS)
    blocks = {len(row.blocks) for row in attend.reached.rows}
    assert blocks == {-(-tokens // CAUSAL_BLOCK) if tokens in BLOCKWISE else 0}
    torch.manual_seed(tokens)
    q = torch.randn(caches, tokens, Q_HEADS, DIM, dtype=torch.float64)
    k, v = torch.randn(2, caches, tokens, KV_HEADS, DIM, dtype=torch.float64)
    order = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    truth = torch.stack([dense_attention(*row, order) for row in zip(q, k, v, strict=True)])
    torch.testing.assert_close(attend(q, k, v), truth)
