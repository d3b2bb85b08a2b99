"""Which tokens the hierarchical retention keeps: depths, blends, smoothing, budgets.

Shapes: L layers, T video slots of a layer.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.hierarchical import Hierarchical, bounds, depth, smoothed


def attention(layers: int, slots: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(slots, generator=generator) for _ in range(layers)]


def kept(memory: Hierarchical, layers: int, slots: int, seed: int = 0) -> list[np.ndarray]:  # type: ignore[type-arg]
    return memory.chosen(memory.scores(attention(layers, slots, seed)))


def test_28_layers_are_2_shallow_17_middle_and_9_deep() -> None:
    assert bounds(28) == (2, 19)
    kinds = [depth(layer, 28) for layer in range(28)]
    assert (kinds.count("shallow"), kinds.count("middle"), kinds.count("deep")) == (2, 17, 9)


def test_fewer_than_ten_layers_have_no_shallow_one() -> None:
    assert {depth(0, layers) for layers in range(2, 10)} == {"middle"}


@settings(max_examples=50, deadline=None)
@given(budget=st.integers(2, 40), slots=st.integers(1, 60), layers=st.integers(1, 12), seed=st.integers(0, 9))
def test_every_layer_fills_its_budget_and_deep_ones_leave_a_slot(
    budget: int, slots: int, layers: int, seed: int
) -> None:
    memory = Hierarchical(budget)
    for layer, index in enumerate(kept(memory, layers, slots, seed)):
        room = budget - (depth(layer, layers) == "deep")
        assert len(index) == min(room, slots)
        assert (np.diff(index) > 0).all()
        assert len(index) == 0 or (index[0] >= 0 and index[-1] < slots)


def test_the_last_layer_keeps_what_is_looked_at_most() -> None:
    looks = attention(10, 30)
    best = torch.topk(looks[-1], 11).indices.sort().values
    assert Hierarchical(12).chosen(Hierarchical(12).scores(looks))[-1].tolist() == best.tolist()


def test_without_attention_shallow_and_middle_layers_keep_the_newest() -> None:
    memory = Hierarchical(6)
    index = memory.chosen(memory.scores([torch.zeros(20)] * 10))
    for layer in range(7):
        assert index[layer].tolist() == list(range(14, 20))


def test_shallow_layers_do_not_look_at_attention() -> None:
    memory = Hierarchical(6)
    low = attention(10, 20, seed=1)
    one, other = memory.scores(low), memory.scores([low[0].flip(0), *low[1:]])
    assert torch.equal(one[0], other[0])


def test_the_blend_is_the_papers_unless_the_released_one_is_asked_for() -> None:
    paper, released = Hierarchical(4), Hierarchical(4, compat="b505d95")
    assert [round(paper.blend(layer, 10)[0], 6) for layer in (0, 1, 4, 7)] == [1.0, 0.75, 0.45, 0.0]
    assert [round(released.blend(layer, 10)[0], 6) for layer in (0, 1, 4, 7)] == [1.0, 1.0, 0.55, 0.0]


def test_only_the_released_code_counts_the_prompt() -> None:
    assert not Hierarchical(100).due(prompt=11, video=100)
    assert Hierarchical(100).due(prompt=11, video=101)
    assert Hierarchical(100, compat="b505d95").due(prompt=11, video=90)
    assert not Hierarchical(100, compat="b505d95").due(prompt=11, video=89)


def test_smoothing_goes_down_through_what_is_already_smoothed() -> None:
    scores = [torch.tensor([float(layer == 2)]) for layer in range(3)]
    result = smoothed(scores, ["shallow", "middle", "deep"])
    assert [round(float(score), 6) for score in result] == [0.03, 0.3, 1.0]


def test_layers_of_unlike_length_are_smoothed_by_stretching() -> None:
    low, high = torch.zeros(6), torch.tensor([0.0, 1.0, 0.0])
    result = smoothed([low, high], ["middle", "deep"])
    assert len(result[0]) == 6
    assert result[0].argmax().item() in (2, 3)
    torch.testing.assert_close(result[0], result[0].flip(0))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"budget": 1}, "budget"),
        ({"budget": 8, "compat": "b"}, "compat"),
        ({"budget": 8, "positions": "x"}, "lazy"),
    ],
)
def test_what_cannot_be_kept_is_refused(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Hierarchical(**wrong)  # type: ignore[arg-type]
