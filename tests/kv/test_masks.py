"""Who sees whom, against a definition in plain Python."""

import pytest

from streamgen.errors import UsageError
from streamgen.kv import Causal, Full, Mask, Tree
from streamgen.kv.masks import windowed


def causal(past: int, tokens: int, window: int | None, sink: int) -> list[list[bool]]:
    keys = range(past + tokens)
    return [
        [key <= query and (window is None or key > query - window or key < sink) for key in keys]
        for query in range(past, past + tokens)
    ]


@pytest.mark.parametrize("past", [0, 3, 9])
@pytest.mark.parametrize("tokens", [2, 5])
@pytest.mark.parametrize(("window", "sink"), [(None, 0), (1, 0), (4, 0), (4, 2), (40, 0)])
def test_a_causal_token_sees_its_window_itself_included(
    past: int, tokens: int, window: int | None, sink: int
) -> None:
    assert Causal(window, sink).dense(past, tokens).tolist() == causal(past, tokens, window, sink)


def test_where_everything_is_visible_there_is_no_mask() -> None:
    assert Full().dense(5, 3) is None
    assert Causal().dense(5, 1) is None
    assert Causal(window=6).dense(5, 1) is None
    assert Causal(window=5).dense(5, 1).tolist() == [[False, True, True, True, True, True]]
    assert Causal(window=4, sink=2).dense(5, 1) is None


def test_a_node_sees_its_ancestors_itself_and_the_past() -> None:
    tree = Tree((-1, 0, 0, 2, -1))
    assert tree.depths == (0, 1, 1, 2, 0)
    sees = [{0}, {0, 1}, {0, 2}, {0, 2, 3}, {4}]
    mask = tree.dense(2, 5).tolist()
    assert mask == [[True, True] + [node in seen for node in range(5)] for seen in sees]


def test_a_window_counts_depth_in_a_tree() -> None:
    # A path is a causal sequence, so its rows are those of a causal mask.
    assert Tree((-1, 0, 1), window=3, sink=1).dense(4, 3).tolist() == causal(4, 3, 3, 1)
    # Siblings stand at the same place: both look equally far back.
    rows = Tree((-1, -1), window=2).dense(3, 2).tolist()
    assert rows == [[False, False, True, True, False], [False, False, True, False, True]]


@pytest.mark.parametrize("wrong", [(1, 0), (0,), (-2,)])
def test_a_child_before_its_parent_is_refused(wrong: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="parents come before"):
        Tree(wrong)


def test_a_tree_masks_as_many_tokens_as_it_has_nodes() -> None:
    with pytest.raises(UsageError, match="2 nodes cannot mask 3"):
        Tree((-1, 0)).dense(0, 3)


@pytest.mark.parametrize("fields", [{"window": 0}, {"sink": -1}])
def test_a_window_that_sees_nothing_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        Causal(**fields)


@pytest.mark.parametrize(
    ("mask", "keys", "expected"),
    [
        (Full(), 99, Full()),
        (Causal(), 10, Causal()),
        (Causal(), 11, Causal(8, 2)),
        (Causal(3), 11, Causal(3)),
        (Causal(9), 11, Causal(8, 2)),
        (Tree((-1,)), 11, Tree((-1,), 8, 2)),
    ],
)
def test_a_stream_window_narrows_a_mask_only_where_it_hides_something(
    mask: Mask, keys: int, expected: Mask
) -> None:
    assert windowed(mask, 8, 2, keys) == expected
