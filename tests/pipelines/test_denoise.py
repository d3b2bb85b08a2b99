"""The rules of a stream, and the pieces around a forward."""

import pytest
import torch

from streamgen.pipelines.denoise import StreamRules, Tail, with_planes


def test_planes_are_the_same_in_every_frame_and_stream() -> None:
    planes = torch.randn(2, 3, 4)
    x = with_planes(torch.zeros(2, 5, 6, 3, 4), planes)
    assert x.shape == (2, 7, 6, 3, 4)
    assert all(torch.equal(x[b, 5:, f], planes) for b in range(2) for f in range(6))


def test_a_tail_answers_everybody_and_remembers_the_last() -> None:
    seen = []

    class Site:
        def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            seen.append((q.shape[1], k.shape[1], v.shape[1]))
            return q

        def store(self, k: torch.Tensor, v: torch.Tensor) -> None:
            seen.append((k.shape[1], v.shape[1]))

    x = torch.zeros(1, 6, 1, 2)
    Tail(Site(), 4)(x, x, x)
    Tail(Site(), 4).store(x, x)
    assert seen == [(6, 4, 4), (4, 4)]


@pytest.mark.parametrize(
    ("window", "sink", "positions", "said"),
    [
        (0, 0, "absolute", "remember nothing new"),
        (3, -1, "absolute", "a sink of at least 0"),
        (3, 1, "relative", "'absolute' or 'window', not 'relative'"),
    ],
)
def test_rules_that_cannot_be_are_refused(window: int, sink: int, positions: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        StreamRules(window, sink, 0.0, positions)  # type: ignore[arg-type]
