"""What a plan says is what is allocated."""

import torch
from torch import nn

from streamgen.kv import Arena, Geometry, PagePool
from streamgen.runtime.memory import cache_pool, text_memory, weights_of


def test_the_cache_share_is_exactly_what_the_pool_allocates() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        geometry = Geometry(layers=3, kv_heads=2, head_dim=8, page_size=4, dtype=dtype)
        arena = Arena()
        pool = PagePool(arena, geometry, 5, "video")
        share = cache_pool(geometry, 5)
        assert share.nbytes == pool.k.nbytes + pool.v.nbytes == arena.held
        assert share.record()["bytes"] == share.nbytes


def test_wan_1_3b_takes_180_kib_a_token() -> None:
    geometry = Geometry(layers=30, kv_heads=12, head_dim=128, page_size=1560, dtype=torch.bfloat16)
    assert cache_pool(geometry, 1).nbytes == 1560 * 180 * 1024
    assert text_memory(layers=30, heads=12, head_dim=128, rows=512, itemsize=2).nbytes == 90 * 2**20


def test_weights_count_once_each_in_the_dtype_it_has() -> None:
    with torch.device("meta"):
        model = nn.ModuleDict({name: nn.Linear(3, 4, bias=False) for name in ("one", "two")})
        model["third"] = nn.Linear(5, 1, bias=False, dtype=torch.bfloat16)
    model["two"].weight = model["one"].weight
    share = weights_of(model, "vae")
    assert (share.what, share.nbytes) == ("vae weights", 3 * 4 * 4 + 5 * 2)
    assert share.how == "5 numbers x 2 bytes + 12 numbers x 4 bytes"
