"""Layers that keep different tokens at different positions equal a model that sees everything through masks.

Shapes: L layers, T new tokens, n tokens of the whole stream, H kv heads, D head dim.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from streamgen.kv.arena import Arena
from streamgen.kv.hierarchical import Depth, Hierarchical
from streamgen.kv.pool import PagePool
from streamgen.models.vlm import Piece, StreamingVLM
from streamgen.pipelines.videoqa_keep import HermesKeeper
from streamgen.pipelines.videoqa_memory import geometry
from streamgen.pipelines.videoqa_stream import LayeredStream
from tests.models.tiny_vlms import LAYERS, MAKERS, encode, pair

FAMILIES = list(MAKERS)


class MaskedAttend:
    """Keeps every key there ever was; `gone` are hidden from what comes later."""

    def __init__(self) -> None:
        self.k = torch.zeros(0)
        self.v = torch.zeros(0)
        self.positions = np.zeros((0,), dtype=np.int64)
        self.seen = torch.zeros(0, dtype=torch.bool)

    def store(self, k: Tensor, v: Tensor) -> None:
        raise AssertionError("a decoder layer always looks")

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.k = k[0] if not len(self.k) else torch.cat([self.k, k[0]])
        self.v = v[0] if not len(self.v) else torch.cat([self.v, v[0]])
        fresh = q.shape[1]
        self.seen = torch.cat([self.seen, torch.ones(fresh, dtype=torch.bool)])
        mask = self.seen[None].repeat(fresh, 1)
        mask[:, -fresh:] &= torch.ones(fresh, fresh, dtype=torch.bool).tril()
        out = functional.scaled_dot_product_attention(
            q.transpose(1, 2),
            self.k.transpose(0, 1)[None],
            self.v.transpose(0, 1)[None],
            mask,
            enable_gqa=True,
        )
        return out.transpose(1, 2)


class Oracle:
    """The same stream without eviction: masks and positions for each layer, kept by hand."""

    def __init__(self, vlm: StreamingVLM) -> None:
        self.vlm = vlm
        self.attends = [MaskedAttend() for _ in range(LAYERS)]

    def feed(self, piece: Piece) -> Tensor:
        positions = []
        for attend in self.attends:
            seen = attend.positions[attend.seen.numpy()]
            start = int(seen.max()) + 1 if len(seen) else 0
            positions.append(piece.places + start)
        hidden = self.vlm(piece, positions, self.attends)
        for attend, new in zip(self.attends, positions, strict=True):
            attend.positions = new if not len(attend.positions) else np.concatenate([attend.positions, new])
        return hidden

    def hide(self, kept: list[np.ndarray]) -> None:  # type: ignore[type-arg]
        """Keep these of the tokens that are still seen."""
        for attend, index in zip(self.attends, kept, strict=True):
            visible = np.flatnonzero(attend.seen.numpy())
            attend.seen[:] = False
            attend.seen[torch.from_numpy(visible[index])] = True


@contextmanager
def opened(vlm: StreamingVLM) -> Iterator[LayeredStream]:
    with PagePool(Arena(), geometry(vlm, torch.float32), 40 * LAYERS) as pool:
        yield LayeredStream(vlm, pool.cache(), "auto")
        pool.check()


def look(family: str, seed: int) -> Piece:
    noise = np.random.default_rng(seed).integers(0, 256, (4, 24, 16, 3), dtype=np.uint8)
    return pair(family)[2].look(noise, [seed + 0.5 * step for step in range(4)])


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_other_lengths_and_positions_in_each_layer_equal_masks_over_everything(family: str) -> None:
    vlm = pair(family)[1]
    oracle, rng = Oracle(vlm), np.random.default_rng(3)
    with opened(vlm) as stream:
        stream.prompt = 5
        pieces = [vlm.words(encode("watch")), look(family, 0), look(family, 1), vlm.words(encode("then?"))]
        for number, piece in enumerate(pieces):
            torch.testing.assert_close(stream.feed(piece), oracle.feed(piece), atol=2e-5, rtol=1e-4)
            if number in (1, 2):
                video = [
                    np.sort(rng.choice(length - 5, length - 5 - 2 * layer - 1, replace=False))
                    for layer, length in enumerate(stream.lengths)
                ]
                stream.let_go(video, renumber=False)
                oracle.hide([np.concatenate([np.arange(5), slots + 5]) for slots in video])
        assert len(set(stream.lengths)) == LAYERS
        for table, attend in zip(stream.cache.tables, oracle.attends, strict=True):
            assert table.positions is not None
            assert np.array_equal(table.positions, attend.positions[attend.seen.numpy()])
        last = oracle.attends[-1]
        torch.testing.assert_close(stream.cache.read(LAYERS - 1)[0], last.k[last.seen], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_closing_the_gaps_equals_keys_that_were_turned_anew(family: str) -> None:
    vlm = pair(family)[1]
    oracle = Oracle(vlm)
    with opened(vlm) as stream:
        stream.prompt = 5
        for piece in (vlm.words(encode("watch")), look(family, 0), look(family, 1)):
            stream.feed(piece)
            oracle.feed(piece)
        video = [np.arange(layer, stream.video, 2) for layer in range(LAYERS)]
        stream.let_go(video, renumber=True)
        oracle.hide([np.concatenate([np.arange(5), slots + 5]) for slots in video])
        for attend, table in zip(oracle.attends, stream.cache.tables, strict=True):
            assert table.positions is not None
            seen = attend.seen.numpy()
            old = torch.from_numpy(attend.positions[seen])
            bare = vlm.rotate(attend.k[attend.seen], -old)
            attend.k[attend.seen] = vlm.rotate(bare, torch.from_numpy(table.positions))
            attend.positions[seen] = table.positions
        assert all(start <= length for start, length in zip(stream.starts, stream.lengths, strict=True))
        question = vlm.words(encode("then?"))
        torch.testing.assert_close(stream.feed(question), oracle.feed(question), atol=5e-5, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("positions", ["lazy", "eager"])
@torch.no_grad()
def test_every_family_forgets_to_its_budget(family: str, positions: str) -> None:
    vlm = pair(family)[1]
    words = vlm.words(encode("what happens")).embeds
    guide: dict[Depth, Tensor] = {"shallow": words, "middle": words, "deep": words}
    keeper = HermesKeeper(Hierarchical(20, positions=positions))  # type: ignore[arg-type]
    with opened(vlm) as stream:
        stream.prompt = 5
        stream.feed(vlm.words(encode("watch")))
        for number in range(5):
            piece = look(family, number)
            stream.feed(piece)
            gone = keeper.settle(stream, piece, [4 * number + step for step in range(4)], lambda: guide)
            if gone is not None:
                assert stream.lengths == (25,) * LAYERS
                assert gone.kept.summaries == (4, 5)
                assert gone.kept.renumbered == (positions == "eager")
        assert gone is not None
        if positions == "eager":
            assert max(stream.starts) <= 25
        for table in stream.cache.tables:
            assert table.positions is not None
            assert (table.positions[:5].reshape(5, -1) == np.arange(5)[:, None]).all()
