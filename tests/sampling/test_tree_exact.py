"""The sampling rules give the target's own distribution: proved by enumeration, not by drawing samples.

Each rule is run with dice that answer with every outcome in turn, weighted by its probability, so that what
is proved is the code that decodes. Two tokens deep: the distribution of pairs. The naive rules fail the same
proof, which shows that it can fail.
"""

from collections.abc import Callable
from functools import cache
from itertools import product

import pytest
import torch
from torch import Tensor

from streamgen.sampling.dice import Dice, KeyedDice
from streamgen.sampling.tree import Draw, TokenTree, merge
from streamgen.sampling.tree_growth import grow_drawn
from streamgen.sampling.tree_verify import (
    Verdict,
    acceptance,
    residual,
    verify_chosen,
    verify_drawn,
    verify_greedy,
)
from tests.sampling.enumeration import Outcomes, enumerate_outcomes

EXACT = 1e-12


def made_up(seed: int, vocabulary: int) -> Callable[[tuple[int, ...]], Tensor]:
    """A language model: a distribution that depends on all tokens before it."""

    @cache
    def model(text: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(
            seed * 1000 + sum(31**i * (t + 1) for i, t in enumerate(text))
        )
        return torch.softmax(2 * torch.randn(vocabulary, generator=generator, dtype=torch.float64), -1)

    return model


def text_of(tree: TokenTree, node: int) -> tuple[int, ...]:
    return tuple(tree.tokens[step] for step in tree.path(node))


def completed(target: Callable[[tuple[int, ...]], Tensor], gained: list[int], dice: Dice) -> tuple[int, ...]:
    """The first two tokens that a decoder emits: what one round gained, then a plain sample."""
    text = (0, *gained)
    while len(text) < 3:
        text = (*text, dice.pick(target(text)))
    return text[1:3]


class ByDepth:
    """Hands out the dice for each depth, which a rule asks for once, from the root on."""

    def __init__(self, dice: Dice) -> None:
        self.dice, self.asked = dice, [-1]

    def __call__(self, depth: int) -> Dice:
        assert depth == self.asked[-1] + 1, "the dice of another depth decide here"
        self.asked.append(depth)
        return self.dice


def error(outcomes: Outcomes, target: Callable[[tuple[int, ...]], Tensor], vocabulary: int) -> float:
    assert abs(sum(outcomes.values()) - 1) < EXACT
    truth = {
        (a, b): float(target((0,))[a] * target((0, a))[b]) for a, b in product(range(vocabulary), repeat=2)
    }
    return max(abs(outcomes.get(pair, 0.0) - chance) for pair, chance in truth.items())


def chosen_tree(draft: Callable[[tuple[int, ...]], Tensor], width: int) -> TokenTree:
    tree = TokenTree.root(0).grow(0, draft((0,)).topk(width).indices.tolist())
    for node in range(1, len(tree)):
        tree = tree.grow(node, draft(text_of(tree, node)).topk(width).indices.tolist())
    return tree


@pytest.mark.parametrize("vocabulary", [4, 5, 6, 7])
def test_chosen_children_keep_the_distribution(vocabulary: int) -> None:
    target = made_up(1, vocabulary)
    tree = chosen_tree(made_up(2, vocabulary), 2)

    def run(dice: Dice) -> tuple[int, ...]:
        verdict = verify_chosen(tree, lambda node: target(text_of(tree, node)), ByDepth(dice))
        return completed(target, verdict.tokens(tree), dice)

    assert error(enumerate_outcomes(run), target, vocabulary) < EXACT


def drawn_round(
    vocabulary: int, drafts: int, draws: int, verify: Callable[..., Verdict] = verify_drawn
) -> float:
    """One depth of children drawn from each draft, then the rule: the error of pairs of tokens."""
    target = made_up(3, vocabulary)
    models = [made_up(4 + number, vocabulary) for number in range(drafts)]

    def run(dice: Dice) -> tuple[int, ...]:
        trees = [
            grow_drawn(TokenTree.root(0), {0: model((0,))}, draws, lambda node, number: dice)
            for model in models
        ]
        tree, _ = merge(trees)
        verdict = verify(
            tree,
            lambda node: target(text_of(tree, node)),
            lambda source, node: models[source](text_of(tree, node)),
            ByDepth(dice),
        )
        return completed(target, verdict.tokens(tree), dice)

    return error(enumerate_outcomes(run), target, vocabulary)


@pytest.mark.parametrize(
    ("vocabulary", "drafts", "draws"),
    [(4, 1, 3), (5, 1, 2), (6, 1, 2), (7, 1, 2), (4, 2, 1), (5, 2, 1), (7, 2, 1)],
)
def test_drawn_children_keep_the_distribution(vocabulary: int, drafts: int, draws: int) -> None:
    assert drawn_round(vocabulary, drafts, draws) < EXACT


def test_drawn_children_two_deep_keep_the_distribution() -> None:
    target, draft = made_up(5, 4), made_up(6, 4)

    def run(dice: Dice) -> tuple[int, ...]:
        tree = TokenTree.root(0)
        for width in (2, 1):
            known = {node: draft(text_of(tree, node)) for node in range(len(tree))}
            tree = grow_drawn(tree, known, width, lambda node, number: dice)
        verdict = verify_drawn(
            tree,
            lambda node: target(text_of(tree, node)),
            lambda source, node: draft(text_of(tree, node)),
            ByDepth(dice),
        )
        return completed(target, verdict.tokens(tree), dice)

    assert error(enumerate_outcomes(run), target, 4) < EXACT


def without_multiplicity(tree: TokenTree, *rest: Callable[..., object]) -> Verdict:
    """Naive: equal draws are tried once."""
    once = tuple(dict.fromkeys(Draw(draw.node, draw.source) for draw in tree.draws))
    return verify_drawn(TokenTree(tree.tokens, tree.parents, once), *rest)


def test_the_naive_rules_change_the_distribution_and_the_proof_sees_it() -> None:
    assert drawn_round(5, 1, 3, without_multiplicity) > 1e-3
    target, draft = made_up(1, 5), made_up(2, 5)
    tree = chosen_tree(draft, 2)

    def plain_q(dice: Dice) -> tuple[int, ...]:  # the rule for draws, used on the likeliest children
        verdict = verify_drawn(
            tree,
            lambda node: target(text_of(tree, node)),
            lambda source, node: draft(text_of(tree, node)),
            ByDepth(dice),
        )
        return completed(target, verdict.tokens(tree), dice)

    assert error(enumerate_outcomes(plain_q), target, 5) > 1e-2


def test_equal_draft_and_target_accept_everything_and_strangers_nothing() -> None:
    p = torch.tensor([0.5, 0.5, 0, 0], dtype=torch.float64)
    q = torch.tensor([0, 0, 0.5, 0.5], dtype=torch.float64)
    assert acceptance(p, p, 0) == 1 and residual(p, p) is None
    assert acceptance(p, q, 2) == 0
    rest = residual(p, q)
    assert rest is not None and torch.equal(rest, p)


def test_greedy_follows_the_best_child_wherever_it_hangs_and_ends_with_the_targets_own_token() -> None:
    tree = TokenTree.root(0).grow(0, [3, 5]).grow(1, [5]).grow(2, [6])
    assert verify_greedy(tree, [5, 9, 6, 9, 7]) == Verdict((0, 2, 4), 7)
    assert verify_greedy(tree, [4, 0, 0, 0, 0]) == Verdict((0,), 4)


def test_the_same_dice_give_speculation_the_tokens_of_plain_sampling() -> None:
    target = made_up(8, 6)

    def dice(place: int) -> KeyedDice:
        return KeyedDice(seed=3, sample=0, place=place)

    text: tuple[int, ...] = (0,)
    for place in range(12):
        text = (*text, dice(place).pick(target(text)))
    told, place = [0], 0
    while len(told) < 13:
        tree = TokenTree.root(told[-1])
        for width in (2, 2):
            deepest = max(tree.depths)
            for node in [n for n in range(len(tree)) if tree.depths[n] == deepest]:
                tree = tree.grow(
                    node, target((*told[:-1], *text_of(tree, node))).topk(width).indices.tolist()
                )
        verdict = verify_chosen(
            tree,
            lambda node, before=tuple(told[:-1]), tree=tree: target((*before, *text_of(tree, node))),
            lambda depth, place=place: dice(place + depth),
        )
        told += verdict.tokens(tree)
        place += len(verdict.nodes)
    assert tuple(told[:13]) == text
