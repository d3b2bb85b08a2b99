"""A stream has no last frame, and its costs do not grow."""

from collections import Counter
from functools import cached_property

import pytest
import torch
from torch import Tensor

from streamgen.models.wan import CausalWan
from streamgen.models.wan_rope import Rope
from streamgen.pipelines.denoise import LatentStream, Positions
from streamgen.sampling.flow import FlowSchedule
from tests.models import tiny
from tests.pipelines.streams import advance, open_stream, prompt

FRAMES, TABLE = 1200, 1024
SIZE = (2, 2)  # one token a frame
WINDOW, SINK = 4, 2
ONE_STEP = FlowSchedule(5.0, (1000,), True, "flow_prediction", "renoise")


class StockTable(CausalWan):
    """Positions from the table of the stock model, which ends after 1024 frames."""

    @cached_property
    def table(self) -> tuple[Tensor, Tensor]:
        cos, sin = self.transformer.rope(torch.empty(1, 1, TABLE, *SIZE))
        return cos[..., 0::2], sin[..., 1::2]

    def rope(self, frames: int, height: int, width: int, start: int = 0) -> Rope:
        tokens = self.frame_tokens(height, width)
        rows = slice(start * tokens, (start + frames) * tokens)
        return Rope(*(numbers[:, rows] for numbers in self.table))


def costs(stream: LatentStream, ran: Counter[str]) -> tuple[object, ...]:
    """Everything that a chunk could make grow."""
    pool = stream.cache.pool
    counters, home = pool.counters(), pool.arena.held
    return (
        counters.used,
        counters.bytes_tokens,
        counters.copies,
        counters.moves,
        home,
        ran["pass"],
        ran["clean"],
    )


@pytest.mark.parametrize("positions", ["absolute", "window"])
def test_1200_frames_cost_the_same_each(positions: Positions) -> None:
    stream = open_stream(WINDOW, SINK, SIZE, page_size=4, positions=positions, schedule=ONE_STEP)
    ran: Counter[str] = Counter()
    stream.model.transformer.blocks[0].register_forward_hook(lambda *_: ran.update(["pass"]))
    stream.model.transformer.blocks[-1].attn1.to_k.register_forward_hook(lambda *_: ran.update(["clean"]))
    text = stream.model.text(prompt())
    spent, before = [], costs(stream, ran)
    for index in range(FRAMES):
        assert bool(advance(stream, text, index, 1).isfinite().all())
        now = costs(stream, ran)
        spent.append(tuple(a - b for a, b in zip(now, before, strict=True)))
        before = now
    assert len(set(spent[WINDOW + SINK + 1 :])) == 1
    assert spent[-1][:2] == (0, 0)


def test_the_first_1024_frames_are_those_of_the_stock_table_which_then_ends() -> None:
    stream = open_stream(WINDOW, SINK, SIZE, page_size=4, schedule=ONE_STEP)
    model = StockTable(tiny.transformer())
    table = open_stream(WINDOW, SINK, SIZE, page_size=4, schedule=ONE_STEP, model=model)
    text = stream.model.text(prompt())
    for index in range(TABLE):
        expected = advance(table, text, index, 1)
        assert torch.equal(advance(stream, text, index, 1), expected)
    with pytest.raises(ValueError, match=r"Keys of shape \[1, 0,"):
        advance(table, text, TABLE, 1)
    assert bool(advance(stream, text, TABLE, 1).isfinite().all())


def test_endless_positions_depend_on_the_distance_in_the_window_alone() -> None:
    far, near = (open_stream(WINDOW, SINK, positions="window") for _ in range(2))
    text = far.model.text(prompt())
    kept = [
        torch.randn(1, tiny.LATENTS, 1, 4, 6, generator=torch.Generator().manual_seed(i)) for i in range(2)
    ]
    for latents in kept:
        far.take(latents, text)
        near.take(latents, text)
    far.frame += 5000
    far.cache.reposition(slice(0, SINK * far.frame_tokens), far.model.rotate, 5000)
    far.sink_frame += 5000
    for index in range(9):
        expected = advance(near, text, index, 1)
        torch.testing.assert_close(advance(far, text, index, 1), expected, atol=2e-5, rtol=1e-4)


def test_a_given_up_chunk_does_not_lose_the_place_of_the_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    disturbed, calm = (open_stream(WINDOW, SINK, positions="window") for _ in range(2))
    text = calm.model.text(prompt())

    def give_up(*_: object) -> None:
        raise KeyboardInterrupt

    for index in range(12):
        with monkeypatch.context() as patched:
            patched.setattr(disturbed.model, "remember", give_up)
            with pytest.raises(KeyboardInterrupt):
                advance(disturbed, text, index + 50, 2)
        expected = advance(calm, text, index, 1)
        torch.testing.assert_close(advance(disturbed, text, index, 1), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_moving_the_sink_a_thousand_times_is_moving_it_once(dtype: torch.dtype) -> None:
    model = CausalWan(tiny.transformer().to(dtype))
    stream = open_stream(WINDOW, SINK, model=model, positions="window")
    text = model.text(prompt())
    for index in range(SINK):
        advance(stream, text, index, 1)
    sink = slice(0, SINK * stream.frame_tokens)
    home = stream.cache.read(0, sink)[0]
    for _ in range(1000):
        stream.cache.reposition(sink, model.rotate, 1)
    assert torch.equal(stream.cache.read(0, sink)[0], model.rotate(home, 1000.0))
