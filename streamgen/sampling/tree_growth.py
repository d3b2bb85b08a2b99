"""How a draft model's answers become a tree: the likeliest children, or children drawn by chance.

Shapes: n nodes, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from streamgen.sampling.dice import Dice
from streamgen.sampling.tree import TokenTree

MOST_NODES = 256


def check_widths(widths: Sequence[int], vocabulary: int) -> tuple[int, ...]:
    """Children per node at each depth, such as (3, 2, 1): one depth at least, and not too many nodes."""
    nodes, row = 1, 1
    for width in widths:
        row *= width
        nodes += row
    if not widths or any(not 1 <= width <= vocabulary for width in widths) or nodes > MOST_NODES:
        raise ValueError(
            f"A tree of widths {list(widths)} cannot be grown; give 1 to {vocabulary} children a depth "
            f"and at most {MOST_NODES} nodes in all."
        )
    return tuple(widths)


def leaves(tree: TokenTree, depth: int) -> list[int]:
    """The nodes at this depth."""
    return [node for node, there in enumerate(tree.depths) if there == depth]


def grow_likeliest(tree: TokenTree, logits: Tensor, width: int) -> TokenTree:
    """The likeliest `width` tokens after every deepest node; logits [n, V] of the draft."""
    deepest = leaves(tree, max(tree.depths))
    best = logits[torch.tensor(deepest, device=logits.device)].topk(width, dim=-1).indices.tolist()
    for node, tokens in zip(deepest, best, strict=True):
        tree = tree.grow(node, tokens)
    return tree


def grow_drawn(
    tree: TokenTree, draft: Mapping[int, Tensor], width: int, dice_at: Callable[[int, int], Dice]
) -> TokenTree:
    """`width` independent draws after every deepest node; draft[node] is its distribution [V].

    dice_at(node, number) decides the number-th draw after a node.
    """
    for node in leaves(tree, max(tree.depths)):
        tokens = [dice_at(node, number).pick(draft[node]) for number in range(width)]
        tree = tree.grow(node, tokens)
    return tree
