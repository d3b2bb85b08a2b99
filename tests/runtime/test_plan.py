"""The published formula against the numbers of its papers, and the sums of a plan."""

import pytest
import torch

from streamgen.runtime.memory import Share
from streamgen.runtime.plan import Plan, dense_cache, largest, times

BF16 = torch.bfloat16
KIB, MIB = 2**10, 2**20
TOKEN = [  # layers, key heads, head dim -> bytes of one token in bfloat16
    ("OPT-13B", 40, 40, 128, 800 * KIB),
    ("Mistral-7B", 32, 8, 128, 128 * KIB),
    ("Qwen2-7B", 28, 4, 128, 56 * KIB),
    ("VAR-d30", 30, 30, 64, 225 * KIB),
    ("Wan2.1-1.3B", 30, 12, 128, 180 * KIB),
    ("Gemma-2-2b", 26, 4, 256, 104 * KIB),
    ("Qwen3-4B", 36, 8, 128, 144 * KIB),
]


@pytest.mark.parametrize(("name", "layers", "heads", "dim", "nbytes"), TOKEN)
def test_a_token_takes_what_the_papers_say(name: str, layers: int, heads: int, dim: int, nbytes: int) -> None:
    assert dense_cache(layers, heads, dim, 1, 1, BF16).nbytes == nbytes, name


@pytest.mark.parametrize(
    ("layers", "heads", "dim", "tokens", "sequences", "nbytes"),
    [
        (40, 40, 128, 2048, 1, 1600 * MIB),  # OPT-13B: 1.5625 GiB
        (32, 8, 128, 4096, 1, 512 * MIB),  # Mistral-7B, its window
        (32, 8, 128, 32768, 1, 4096 * MIB),
        (28, 4, 128, 196, 1, 196 * 56 * KIB),  # a frame of LLaVA-OneVision: 10.72 MiB
        (30, 30, 64, 680, 2, 2 * 680 * 225 * KIB),  # VAR-d30 under guidance: 298.8 MiB
        (30, 12, 128, 21 * 1560, 1, 32760 * 180 * KIB),  # Wan2.1-1.3B: 5.62 GiB
        (26, 4, 256, 131072, 1, 13312 * MIB),  # Gemma-2-2b: 13 GiB
    ],
)
def test_sequences_take_what_the_papers_say(
    layers: int, heads: int, dim: int, tokens: int, sequences: int, nbytes: int
) -> None:
    assert dense_cache(layers, heads, dim, tokens, sequences, BF16).nbytes == nbytes


def test_grouped_queries_divide_the_formula_by_the_size_of_the_groups() -> None:
    whole, grouped = (dense_cache(4, heads, 64, 100, 3, torch.float32).nbytes for heads in (32, 8))
    assert whole == 4 * grouped


def test_a_plan_adds_up_and_leaves_the_formula_out() -> None:
    plan = Plan(
        sequences=2,
        formula=Share("formula", 1000, ""),
        once=(Share("weights", 5, ""),),
        pools=(Share("cache", 7, ""), Share("cache, window 4", 11, "")),
        each=(Share("decoder", 13, ""),),
    )
    assert (plan.cache, plan.total) == (18, 36)
    assert plan.fits(36) and not plan.fits(35)
    record = plan.record()
    assert record["total"]["bytes"] == 36 and list(record["memory"]) == [
        "weights",
        "cache",
        "cache, window 4",
        "decoder",
    ]


def test_what_each_holds_is_multiplied_and_says_so() -> None:
    assert times(Share("a", 3, "x"), 1) == Share("a", 3, "x")
    assert times(Share("a", 3, "x"), 4) == Share("a", 12, "4 x (x)")


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 8, 9, 100])
def test_the_largest_that_fits_is_found(limit: int) -> None:
    asked: list[int] = []

    def fits(number: int) -> bool:
        asked.append(number)
        return number <= limit

    assert largest(fits, 50) == min(limit, 50)
    assert max(asked) <= 51 and len(asked) < 20
