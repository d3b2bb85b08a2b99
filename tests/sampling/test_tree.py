"""Token trees: what they are, how several become one, and in which order they lie."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgen.kv.masks import Tree
from streamgen.sampling.tree import Draw, TokenTree, depth_first, merge, padded
from streamgen.sampling.tree_growth import check_widths, grow_likeliest

PARENTS = st.lists(st.integers(0, 10**6), max_size=12)


def tree_of(numbers: list[int]) -> TokenTree:
    """A tree from arbitrary numbers: node i + 1 hangs under node numbers[i] mod (i + 1)."""
    tree = TokenTree.root(0)
    for count, number in enumerate(numbers, start=1):
        tree = tree.grow(number % len(tree), [count % 5])
    return tree


def paths(tree: TokenTree) -> set[tuple[int, ...]]:
    """Every path from the root, as tokens."""
    return {tuple(tree.tokens[step] for step in tree.path(node)) for node in range(len(tree))}


@given(PARENTS)
@settings(max_examples=60, deadline=None)
def test_a_node_sees_exactly_its_path_and_the_cache_masks_the_same(numbers: list[int]) -> None:
    tree = tree_of(numbers)
    seen = tree.ancestors()
    for node in range(len(tree)):
        assert tuple(seen[node].nonzero().flatten().tolist()) == tree.path(node)
        assert tree.depths[node] == len(tree.path(node)) - 1
    mask = Tree(tree.parents).dense(past=3, tokens=len(tree))
    assert mask is not None and torch.equal(mask[:, 3:], seen) and bool(mask[:, :3].all())


@given(PARENTS)
@settings(max_examples=60, deadline=None)
def test_depth_first_order_keeps_the_paths_and_lays_each_subtree_in_one_stretch(numbers: list[int]) -> None:
    tree = tree_of(numbers)
    ordered, order = depth_first(tree)
    assert paths(ordered) == paths(tree) and ordered.tokens == tuple(tree.tokens[old] for old in order)
    for node in range(len(ordered)):
        below = [other for other in range(len(ordered)) if node in ordered.path(other)]
        assert below == list(range(node, node + len(below)))


@given(PARENTS, PARENTS)
@settings(max_examples=60, deadline=None)
def test_the_merged_tree_has_the_paths_of_both_and_every_draw_of_both(
    left: list[int], right: list[int]
) -> None:
    trees = [tree_of(left), tree_of(right)]
    merged, places = merge(trees)
    assert paths(merged) == paths(trees[0]) | paths(trees[1])
    assert len(merged.draws) == sum(len(tree.draws) for tree in trees)
    for source, (tree, place) in enumerate(zip(trees, places, strict=True)):
        for node in range(len(tree)):
            assert [tree.tokens[step] for step in tree.path(node)] == [
                merged.tokens[step] for step in merged.path(place[node])
            ]
            mine = [place[draw.node] for draw in tree.tries(node)]
            assert [d.node for d in merged.tries(place[node]) if d.source == source] == mine


def test_a_token_that_is_drawn_twice_is_one_node_and_two_tries() -> None:
    tree = TokenTree.root(7).grow(0, [3, 4, 3])
    assert tree.tokens == (7, 3, 4)
    assert tree.tries(0) == (Draw(1), Draw(2), Draw(1))


def test_the_likeliest_children_come_in_order_and_only_the_deepest_nodes_grow() -> None:
    tree = grow_likeliest(TokenTree.root(1), torch.tensor([[0.0, 3.0, 1.0, 2.0]]), 2)
    assert tree.tokens == (1, 1, 3) and tree.parents == (-1, 0, 0)
    tree = grow_likeliest(tree, torch.tensor([[9.0, 0, 0, 0], [0, 5, 0, 0], [0, 0, 5, 0]]), 1)
    assert tree.tokens == (1, 1, 3, 1, 2) and tree.parents == (-1, 0, 0, 1, 2)


def test_a_padded_tree_hangs_idle_nodes_under_the_root_that_nobody_sees() -> None:
    tokens, parents = padded(TokenTree.chain([5, 6]), 4)
    assert tokens == (5, 6, 5, 5) and parents == (-1, 0, 0, 0)
    mask = Tree(parents).dense(0, 4)
    assert mask is not None and not mask[:2, 2:].any()


@pytest.mark.parametrize(
    ("tokens", "parents"), [((1, 2), (-1,)), ((), ()), ((1, 2), (-1, 1)), ((1, 2), (-1, -1)), ((1,), (0,))]
)
def test_what_is_no_tree_is_refused(tokens: tuple[int, ...], parents: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="tree"):
        TokenTree(tokens, parents)


def test_twin_siblings_trees_of_other_roots_and_impossible_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="list it twice"):
        TokenTree((0, 1, 1), (-1, 0, 0))
    with pytest.raises(ValueError, match="same root"):
        merge([TokenTree.root(0), TokenTree.root(1)])
    for widths in ([], [0], [9], [8, 8, 8]):
        with pytest.raises(ValueError, match="cannot be grown"):
            check_widths(widths, 8)
