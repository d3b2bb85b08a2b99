"""Choosing tokens: each function against its definition."""

import pytest
import torch
from torch import Tensor

from streamgen.sampling.tokens import (
    draw,
    exponential,
    guide,
    heat,
    keep_top_k,
    keep_top_p,
    soft_codes,
)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def logits(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed)) * 2


def test_guidance_of_0_is_the_told_side_and_more_goes_away_from_the_untold_one() -> None:
    told, untold = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 3.0])
    assert torch.equal(guide(told, untold, 0.0), told)
    assert torch.equal(guide(told, untold, 2.0), torch.tensor([3.0, 0.0]))


def test_top_k_keeps_k_and_ties_with_the_last_of_them() -> None:
    kept = keep_top_k(torch.tensor([[5.0, 1.0, 3.0, 3.0, 4.0]]), 3)
    assert kept.isfinite().tolist() == [[True, False, True, True, True]]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1.0])
def test_top_p_drops_the_unlikeliest_that_weigh_at_most_the_rest(p: float) -> None:
    given = logits(3, 7, 11)
    kept = keep_top_p(given, p)
    for row, left in zip(given.flatten(0, 1), kept.flatten(0, 1), strict=True):
        shares, order = row.softmax(0).sort()
        dropped = [int(i) for i, total in zip(order, shares.cumsum(0), strict=True) if total <= 1 - p]
        expected = [i not in dropped or i == int(row.argmax()) for i in range(11)]
        assert left.isfinite().tolist() == expected


def test_0_switches_either_filter_off() -> None:
    given = logits(2, 3, 5)
    assert torch.equal(keep_top_k(given, 0), given) and torch.equal(keep_top_p(given, 0), given)


def test_filters_leave_their_input_alone() -> None:
    given = logits(2, 3, 5)
    before = given.clone()
    keep_top_p(keep_top_k(given, 2), 0.5)
    assert torch.equal(given, before)


def test_a_draw_is_the_one_torch_multinomial_makes() -> None:
    given = logits(40, 9)
    expected = torch.multinomial(given.softmax(-1), 1, generator=generator(3))[:, 0]
    assert torch.equal(draw(given, exponential((40, 9), [generator(3)])[0]), expected)


def test_draws_follow_the_shares_and_never_take_what_is_hidden() -> None:
    given = keep_top_k(torch.tensor([2.0, 1.0, 0.0, -1.0]), 3).expand(20000, 4)
    tokens = draw(given, exponential((20000, 4), [generator(1)])[0])
    shares = tokens.bincount(minlength=4) / len(tokens)
    torch.testing.assert_close(shares, given[0].softmax(0), atol=0.02, rtol=0)
    assert shares[3] == 0


def test_each_image_has_noise_of_its_own_whatever_stands_beside_it() -> None:
    alone = exponential((5, 4), [generator(7)])
    beside = exponential((5, 4), [generator(1), generator(7)])
    assert torch.equal(beside[1:], alone) and not torch.equal(beside[0], beside[1])


def test_soft_codes_cool_down_to_one_code() -> None:
    given, book = logits(1, 6, 8), torch.eye(8)
    still = torch.zeros_like(given)
    warm, cold = soft_codes(given, still, book, 0.0), soft_codes(given, still, book, 1.0)
    torch.testing.assert_close(warm.sum(-1), torch.ones(1, 6))
    assert (cold.amax(-1) > warm.amax(-1)).all()
    assert torch.equal(cold.argmax(-1), given.argmax(-1))
    assert heat(0.0) == pytest.approx(0.27) and heat(1.0) == pytest.approx(0.0135)


def test_a_soft_mix_of_one_code_left_is_that_code() -> None:
    given, book = keep_top_k(logits(1, 6, 8), 1), torch.randn(8, 3, generator=generator(2))
    noise = -exponential((6, 8), [generator(4)]).log()
    torch.testing.assert_close(soft_codes(given, noise, book, 0.5), book[given.argmax(-1)])
