"""Where a window ends, for every kernel that runs on a CPU: alone, and over a beginning that texts share.

At W - 1, W and W + 1 keys, counted from the first key behind the sink: the last counts at which a window
hides nothing, and the first at which it hides one.
"""

import pytest

from streamgen.attention import Kernel, Need
from streamgen.attention.trunks import longest_trunk
from streamgen.kv import Causal, Mask, Tree, stage_together
from tests.attention.scenes import Q_HEADS, Stream, World, error_of

W = 12
CPU_KERNELS = ("reference", "sdpa", "segments", "cascade", "flex")

cpu_kernels = pytest.mark.parametrize("kernel", CPU_KERNELS, indirect=True)
edges = pytest.mark.parametrize("keys", [W - 1, W, W + 1])
sinks = pytest.mark.parametrize("sink", [0, 3])
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def mask_of(kind: str, tokens: int, sink: int) -> Mask:
    return Causal(W, sink) if kind == "causal" else Tree((-1, 0, 0, 1)[:tokens], W, sink)


def look(kernel: Kernel, streams: list[Stream], tokens: int, mask: Mask, trunk: bool) -> float:
    stages = stage_together([stream.cache for stream in streams], tokens, mask)
    views = [stage.tables[0].view for stage in stages]
    assert (longest_trunk(views, [mask] * len(views)) > 0) is trunk
    assert Need.of(stages, Q_HEADS).mask in kernel.masks
    try:
        return error_of(kernel, streams, stages, [mask] * len(streams), passes=1)
    finally:
        for stage in stages:
            stage.discard()


@cpu_kernels
@edges
@sinks
@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("kind", ["causal", "tree"])
def test_a_window_hides_its_first_key_at_one_key_more_than_it_has(
    kernel: Kernel, keys: int, sink: int, tokens: int, kind: str
) -> None:
    stream = World().stream().push(keys + sink - tokens)
    assert look(kernel, [stream], tokens, mask_of(kind, tokens, sink), trunk=False) < 2e-5


@cpu_kernels
@edges
@sinks
@pytest.mark.parametrize("tokens", [1, 4])
@pytest.mark.parametrize("kind", ["causal", "tree"])
def test_a_window_over_a_shared_beginning_ends_where_it_does_alone(
    kernel: Kernel, keys: int, sink: int, tokens: int, kind: str
) -> None:
    """The trunk is read without a mask, so it may only be one while no window hides any of it."""
    parent = World().stream().push(keys + sink - tokens)
    streams = [parent, parent.fork(), parent.fork()]
    mask = mask_of(kind, tokens, sink)
    assert look(kernel, streams, tokens, mask, trunk=keys <= W) < 2e-5


@cpu_kernels
@sinks
def test_texts_on_both_sides_of_the_edge_share_a_batch(kernel: Kernel, sink: int) -> None:
    """Of four texts with one beginning, two still see all of it."""
    parent = World().stream().push(W + sink - 3)
    streams = [parent, *(parent.fork().push(more) for more in (1, 2, 3))]
    assert look(kernel, streams, 2, Causal(W, sink), trunk=True) < 2e-5
