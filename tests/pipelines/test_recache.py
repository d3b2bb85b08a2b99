"""ReCache: what is remembered after a prompt switch."""

import pytest
import torch

from streamgen.pipelines.recache import recache
from tests.pipelines.streams import advance, open_stream, prompt

WINDOW, SINK = 3, 1


def test_an_early_recache_remembers_the_frames_as_if_the_new_prompt_had_been_theirs() -> None:
    stream, fresh = open_stream(WINDOW, SINK), open_stream(WINDOW, SINK)
    old, new = stream.model.text(prompt()), stream.model.text(prompt(seed=1))
    latents = torch.cat([advance(stream, old, index, 1) for index in range(3)], dim=2)
    recache(stream, latents, new, keep_sink=True)
    fresh.take(latents, new)
    for layer in range(stream.model.layers):
        for kept, expected in zip(stream.cache.read(layer), fresh.cache.read(layer), strict=True):
            torch.testing.assert_close(kept, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(advance(stream, new, 3, 1), advance(fresh, new, 3, 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("keep_sink", [True, False])
def test_a_late_recache_keeps_or_moves_the_sink(keep_sink: bool) -> None:
    stream = open_stream(WINDOW, SINK)
    old, new = stream.model.text(prompt()), stream.model.text(prompt(seed=1))
    latents = torch.cat([advance(stream, old, index, 1) for index in range(7)], dim=2)
    before = stream.cache.read(0, slice(0, SINK * stream.frame_tokens))[0]
    recache(stream, latents[:, :, -stream.remembered :], new, keep_sink=keep_sink)
    after = stream.cache.read(0, slice(0, SINK * stream.frame_tokens))[0]
    assert torch.equal(before, after) == keep_sink
    assert stream.remembered == WINDOW + SINK and stream.frame == 7
    assert after.any()
    stream.cache.pool.check()


def test_a_recache_changes_what_follows() -> None:
    plain, rewritten = open_stream(WINDOW, SINK), open_stream(WINDOW, SINK)
    old, new = plain.model.text(prompt()), plain.model.text(prompt(seed=1))
    latents = torch.cat([advance(plain, old, index, 1) for index in range(3)], dim=2)
    rewritten.take(latents, old)
    recache(rewritten, latents, new, keep_sink=True)
    assert (advance(plain, new, 3, 1) - advance(rewritten, new, 3, 1)).abs().max() > 1e-3


def test_other_latents_than_those_remembered_are_refused() -> None:
    stream = open_stream(WINDOW, SINK)
    text = stream.model.text(prompt())
    latents = torch.cat([advance(stream, text, index, 1) for index in range(2)], dim=2)
    with pytest.raises(
        ValueError, match="remembers 2 latent frames and 1 were given; give exactly the latest"
    ):
        recache(stream, latents[:, :, 1:], text, keep_sink=True)
