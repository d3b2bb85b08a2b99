"""Which path of a token tree the target model accepts: greedily, or so that its own distribution is kept.

The rules of SpecInfer (arXiv 2305.09781, algorithm 2) as far as they are exact. Children that were *chosen*
(the likeliest k) are not random: their rule samples from the target and follows the sample while it is a
child. Children that were *drawn* from a draft are tried one after the other, each draw once: duplicates too.
Using the second rule on the first kind, or merging equal draws into one try, changes the distribution.

Shapes: n nodes, V vocabulary. Distributions are float64 on the CPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from streamgen.sampling.dice import Dice
from streamgen.sampling.tree import TokenTree


@dataclass(frozen=True)
class Verdict:
    """The nodes that are accepted, the root first, and the target's own next token, which has no node."""

    nodes: tuple[int, ...]
    token: int

    def tokens(self, tree: TokenTree) -> list[int]:
        """What the text gains: the accepted tokens after the root, then the target's own."""
        return [*(tree.tokens[node] for node in self.nodes[1:]), self.token]


def verify_greedy(tree: TokenTree, best: Sequence[int]) -> Verdict:
    """Follow the child that is the target's best token; best[i] is the argmax after node i."""
    nodes = [0]
    while (child := tree.child(nodes[-1], best[nodes[-1]])) is not None:
        nodes.append(child)
    return Verdict(tuple(nodes), best[nodes[-1]])


def verify_chosen(
    tree: TokenTree, target: Callable[[int], Tensor], dice_at: Callable[[int], Dice]
) -> Verdict:
    """Exact for children that were chosen without chance: sample, and descend while the sample is a child.

    target(node) is the target's distribution [V] after a node, dice_at(depth) decides the token after it. The
    same dice in plain sampling give the same text, token by token.
    """
    nodes = [0]
    while True:
        here = nodes[-1]
        token = dice_at(tree.depths[here]).pick(target(here))
        child = tree.child(here, token)
        if child is None:
            return Verdict(tuple(nodes), token)
        nodes.append(child)


def verify_drawn(
    tree: TokenTree,
    target: Callable[[int], Tensor],
    draft: Callable[[int, int], Tensor],
    dice_at: Callable[[int], Dice],
) -> Verdict:
    """Exact for children that were drawn independently, each draw counted: multi-step speculative sampling.

    draft(source, node) is the distribution [V] that the draws of this source after this node came from.
    """
    nodes = [0]
    while True:
        dice, p = dice_at(tree.depths[nodes[-1]]), target(nodes[-1])
        for draw in tree.tries(nodes[-1]):
            q = draft(draw.source, nodes[-1])
            rest = residual(p, q)
            if rest is None or dice.coin(acceptance(p, q, tree.tokens[draw.node])):
                nodes.append(draw.node)
                break
            p = rest
        else:
            return Verdict(tuple(nodes), dice.pick(p))


def acceptance(p: Tensor, q: Tensor, token: int) -> float:
    """The probability with which a token drawn from q is accepted for p."""
    return min(1.0, float(p[token]) / float(q[token])) if q[token] > 0 else 0.0


def residual(p: Tensor, q: Tensor) -> Tensor | None:
    """What is left to draw from after a draw from q was rejected; None where q covers all of p."""
    rest = (p - q).clamp(min=0)
    total = rest.sum()
    return rest / total if total > 0 else None


def distribution(logits: Tensor) -> Tensor:
    """Probabilities [..., V] in float64 on the CPU, as the rules take them."""
    return torch.softmax(logits.detach().to("cpu", torch.float64), dim=-1)
