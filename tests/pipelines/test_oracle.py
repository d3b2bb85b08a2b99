"""Streaming with a cache is recomputing everything with a block-causal mask, for any kernel and layout."""

from functools import cache

import pytest
import torch
from torch import Tensor

from streamgen.attention.contract import Need
from streamgen.attention.registry import kernels
from streamgen.pipelines.denoise import LatentStream
from tests.pipelines.streams import advance, dense_rollout, open_stream, prompt

CASES = {
    "all remembered": ([1] * 5, None, 0),
    "window": ([1] * 8, 3, 0),
    "window and sink": ([1] * 9, 3, 1),
    "chunks of two": ([2] * 6, 5, 2),
    "first frame alone": ([1, 3, 3, 3], 6, 1),
    "window that chunks do not divide": ([3] * 5, 4, 1),
}
TOLERANCE = 1e-5
QUICK = ("reference", "sdpa", "segments")


@cache
def oracle(case: str) -> tuple[Tensor, ...]:
    chunks, window, sink = CASES[case]
    return tuple(dense_rollout(chunks, prompt(), window, sink))


def need_of(stream: LatentStream) -> Need:
    with stream.cache.stage(stream.frame_tokens) as stage:
        return Need.of([stage], stream.model.heads)


def usable(kernel: str, stream: LatentStream) -> None:
    lack = kernels()[kernel].lacks(need_of(stream))
    if lack is not None:
        pytest.skip(str(lack))


@pytest.mark.parametrize("ring", [True, False])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", QUICK)
def test_streaming_is_recomputing_everything(kernel: str, case: str, ring: bool) -> None:
    chunks, window, sink = CASES[case]
    stream = open_stream(window, sink, attention=kernel, ring=ring)
    text = stream.model.text(prompt())
    for index, (frames, expected) in enumerate(zip(chunks, oracle(case), strict=True)):
        latents = advance(stream, text, index, frames)
        torch.testing.assert_close(latents, expected, atol=TOLERANCE, rtol=TOLERANCE)
        stream.cache.pool.check()


@pytest.mark.parametrize("kernel", sorted(set(kernels()) - set(QUICK)))
def test_streaming_is_recomputing_everything_for_every_other_kernel_that_runs_here(kernel: str) -> None:
    chunks, window, sink = CASES["window and sink"]
    stream = open_stream(window, sink, attention=kernel)
    usable(kernel, stream)
    text = stream.model.text(prompt())
    for index, (frames, expected) in enumerate(zip(chunks, oracle("window and sink"), strict=True)):
        latents = advance(stream, text, index, frames)
        torch.testing.assert_close(latents, expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("ring", [True, False])
@pytest.mark.parametrize("split", [2, 6])
@pytest.mark.parametrize("kernel", QUICK)
def test_a_fork_and_its_origin_both_go_on_as_if_alone(kernel: str, split: int, ring: bool) -> None:
    chunks, window, sink = CASES["window and sink"]
    stream = open_stream(window, sink, attention=kernel, ring=ring)
    text = stream.model.text(prompt())
    for index in range(split):
        advance(stream, text, index, chunks[index])
    twin = stream.fork()
    other = stream.model.text(prompt(seed=8))
    strayed = stream.fork()
    for index, expected in list(enumerate(oracle("window and sink")))[split:]:
        for branch in (twin, stream):
            latents = advance(branch, text, index, chunks[index])
            torch.testing.assert_close(latents, expected, atol=TOLERANCE, rtol=TOLERANCE)
        assert (advance(strayed, other, index, chunks[index]) - expected).abs().max() > 0.01
        stream.cache.pool.check()


def test_a_stream_that_is_ahead_in_a_ring_is_the_same_for_every_page_size() -> None:
    chunks, window, sink = CASES["chunks of two"]
    for page_size in (1, 5, 6, 64):
        stream = open_stream(window, sink, page_size=page_size)
        text = stream.model.text(prompt())
        for index, (frames, expected) in enumerate(zip(chunks, oracle("chunks of two"), strict=True)):
            latents = advance(stream, text, index, frames)
            torch.testing.assert_close(latents, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_chunk_that_is_given_up_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks, window, sink = CASES["window and sink"]
    stream = open_stream(window, sink)
    text = stream.model.text(prompt())

    def give_up(*_: object) -> None:
        raise KeyboardInterrupt

    for index, (frames, expected) in enumerate(zip(chunks, oracle("window and sink"), strict=True)):
        with monkeypatch.context() as patched:
            patched.setattr(stream.model, "remember", give_up)
            with pytest.raises(KeyboardInterrupt):
                advance(stream, text, index + 100, frames)
        latents = advance(stream, text, index, frames)
        torch.testing.assert_close(latents, expected, atol=TOLERANCE, rtol=TOLERANCE)
