"""Token trees: several continuations of one text, checked by the target model in a single pass (SpecInfer,
arXiv 2305.09781, section 3).

Node 0 is the root: the last token that is sure, whose keys are not stored yet. Shapes: n nodes, V vocabulary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Draw:
    """One try at a node: a child, and the draft that proposed it. A token drawn twice is tried twice."""

    node: int
    source: int = 0


@dataclass(frozen=True)
class TokenTree:
    """Node i continues node parents[i] with tokens[i]; parents come first, and only the root has none (-1).

    Siblings have different tokens. `draws` holds every proposal in the order in which it was made.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    draws: tuple[Draw, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents) or not self.tokens:
            raise ValueError(
                f"{len(self.tokens)} tokens and {len(self.parents)} parents make no tree; give one of each "
                "for every node, the root first."
            )
        wrong = [node for node, parent in enumerate(self.parents) if not (0 <= parent < node or node == 0)]
        if self.parents[0] != -1 or wrong:
            raise ValueError(
                f"The parents {list(self.parents)} make no tree: the root has -1, every other node a parent "
                "that comes before it."
            )
        pairs = list(zip(self.parents, self.tokens, strict=True))
        if len(set(pairs)) != len(pairs):
            raise ValueError(
                "Two siblings have the same token; keep one node and list it twice in draws, since a token "
                "that was drawn twice is tried twice."
            )

    @classmethod
    def root(cls, token: int) -> "TokenTree":
        """The tree that proposes nothing."""
        return cls((token,), (-1,))

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> "TokenTree":
        """A single path: tokens[0] is the root."""
        nodes = range(len(tokens))
        draws = tuple(Draw(node) for node in nodes[1:])
        return cls(tuple(tokens), tuple(node - 1 for node in nodes), draws)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How many tokens after the root: what is added to the root's position."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def _children(self) -> tuple[dict[int, int], ...]:
        children: tuple[dict[int, int], ...] = tuple({} for _ in self.tokens)
        for node in range(1, len(self)):
            children[self.parents[node]][self.tokens[node]] = node
        return children

    def child(self, node: int, token: int) -> int | None:
        """The child of a node that has this token."""
        if len(self) == 1:  # asked at every step of every text that nobody drafts for
            return None
        return self._children[node].get(token)

    def tries(self, node: int) -> tuple[Draw, ...]:
        """The proposals after a node, in the order in which they were made."""
        return tuple(draw for draw in self.draws if self.parents[draw.node] == node)

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the root to this one, both included; always rising."""
        path = [node]
        while path[-1] > 0:
            path.append(self.parents[path[-1]])
        return tuple(reversed(path))

    def grow(self, parent: int, tokens: Iterable[int], source: int = 0) -> "TokenTree":
        """The same tree with proposals after `parent`; equal tokens become one node with several tries."""
        grown, parents, draws = list(self.tokens), list(self.parents), list(self.draws)
        known = dict(self._children[parent])
        for token in tokens:
            if token not in known:
                known[token] = len(grown)
                grown.append(token)
                parents.append(parent)
            draws.append(Draw(known[token], source))
        return TokenTree(tuple(grown), tuple(parents), tuple(draws))

    def ancestors(self) -> Tensor:
        """bool [n, n]: row i marks what node i sees of the tree, its ancestors and itself."""
        seen = torch.eye(len(self), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] |= seen[parent]
        return seen


def merge(trees: Sequence[TokenTree]) -> tuple[TokenTree, list[tuple[int, ...]]]:
    """The union of several drafts' trees with one root, and where each tree's nodes went.

    A path that two drafts propose is one path with the tries of both; draft s becomes source s.
    """
    if not trees or len({tree.tokens[0] for tree in trees}) != 1:
        raise ValueError(
            "merge() takes one or more trees with the same root; grow them after the same token."
        )
    merged, places = TokenTree.root(trees[0].tokens[0]), []
    for tree in trees:
        place = [0]
        for node in range(1, len(tree)):
            parent = place[tree.parents[node]]
            here = merged.child(parent, tree.tokens[node])
            if here is None:
                here = len(merged)
                merged = TokenTree((*merged.tokens, tree.tokens[node]), (*merged.parents, parent))
            place.append(here)
        places.append(tuple(place))
    draws = [
        Draw(place[draw.node], source)
        for source, (tree, place) in enumerate(zip(trees, places, strict=True))
        for draw in tree.draws
    ]
    return TokenTree(merged.tokens, merged.parents, tuple(draws)), places


def depth_first(tree: TokenTree) -> tuple[TokenTree, tuple[int, ...]]:
    """The tree in depth-first order, and the old number of each new node.

    If the first path is the accepted one, its keys already lie where they belong and nothing is moved.
    """
    order, pending = [], [0]
    while pending:
        node = pending.pop()
        order.append(node)
        pending += reversed([child for child, parent in enumerate(tree.parents) if parent == node])
    new = {old: number for number, old in enumerate(order)}
    parents = tuple(new.get(tree.parents[old], -1) for old in order)
    draws = tuple(Draw(new[draw.node], draw.source) for draw in tree.draws)
    return TokenTree(tuple(tree.tokens[old] for old in order), parents, draws), tuple(order)


def padded(tree: TokenTree, nodes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tokens and parents with idle nodes after the root to fill a batch; nobody sees or accepts them."""
    idle = nodes - len(tree)
    return tree.tokens + (tree.tokens[0],) * idle, tree.parents + (0,) * idle
