"""Streams of one pipeline at the same time: each comes out as if alone, however little room there is."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from streamgen.kv.errors import OutOfPagesError
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_chunk import TextChunk
from tests.models import lms
from tests.pipelines.texts import RAGGED, collected, generated, pipe_of

TOKENS = 12


def expected(family: str, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    return [generated(lms.stock(family), prompt, TOKENS)[0] for prompt in prompts]


def in_turns(streams: Sequence[Iterator[TextChunk]]) -> list[list[TextChunk]]:
    """Pull one chunk of every stream, again and again, until all have ended."""
    told: list[list[TextChunk]] = [[] for _ in streams]
    left = list(range(len(streams)))
    while left:
        for number in list(left):
            chunk = next(streams[number], None)
            if chunk is None:
                left.remove(number)
            else:
                told[number].append(chunk)
    return told


def quiet(pipe: TextPipeline) -> None:
    for group in pipe.memory.groups:
        group.pool.check()
        assert group.pool.counters().used == 0


@pytest.mark.parametrize(
    ("family", "tokens"), [("qwen2", 44), ("qwen2", 64), ("mistral", 48), ("gemma3", 44)]
)
def test_streams_that_take_turns_make_room_for_each_other(family: str, tokens: int) -> None:
    with pipe_of(family, tokens=tokens, texts=1) as pipe:
        told = in_turns([pipe.stream(prompt, max_tokens=TOKENS) for prompt in RAGGED])
        assert [collected(chunks)[0, 0] for chunks in told] == expected(family, RAGGED)
        assert pipe.counters.parked == pipe.counters.resumed > 0
        quiet(pipe)


def test_a_stream_of_several_requests_gives_way_to_one_that_is_alone_and_goes_on() -> None:
    with pipe_of(tokens=72) as pipe:
        first = pipe.stream(RAGGED, max_tokens=TOKENS)
        begun = [next(first) for _ in range(3)]
        alone = collected(pipe.stream(RAGGED[2], max_tokens=TOKENS))
        texts = collected([*begun, *first])
        assert [texts[number, 0] for number in range(len(RAGGED))] == expected("qwen2", RAGGED)
        assert alone[0, 0] == texts[2, 0]
        quiet(pipe)


def test_samples_come_between_a_text_and_its_draft() -> None:
    options: dict[str, Any] = {"draft": pipe_of("qwen2", 9).model, "widths": (2, 1)}
    samples: dict[str, Any] = {"max_tokens": TOKENS, "samples": 4, "temperature": 1.0}
    with pipe_of(**options) as roomy:
        truth = collected(roomy.stream(RAGGED[0], **samples))
    with pipe_of(tokens=88, **options) as pipe:
        drafted = pipe.stream(RAGGED[2], max_tokens=TOKENS)
        begun = [next(drafted)]
        assert collected(pipe.stream(RAGGED[0], **samples)) == truth
        assert pipe.counters.parked > 0
        assert collected([*begun, *drafted])[0, 0] == expected("qwen2", RAGGED)[2]
        quiet(pipe)


def test_streams_of_several_threads_take_turns_step_by_step() -> None:
    prompts = [*RAGGED, *RAGGED]
    with pipe_of(tokens=56) as pipe:

        def written(prompt: tuple[int, ...]) -> list[int]:
            return collected(pipe.stream(prompt, max_tokens=TOKENS))[0, 0]

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(written, prompts)) == expected("qwen2", RAGGED) * 2
        quiet(pipe)


def test_pages_that_are_no_streams_are_not_taken_and_the_refusal_leaves_the_others_as_they_were() -> None:
    with pipe_of(tokens=44) as pipe:
        other = pipe.stream(RAGGED[0], max_tokens=TOKENS)
        begun = [next(other)]
        starved = pipe.stream(RAGGED[2], max_tokens=TOKENS)
        with (
            pipe.memory.open("held by hand").caches[0] as cache,
            cache.stage(16),
            pytest.raises(OutOfPagesError),
        ):
            list(starved)
        assert collected([*begun, *other])[0, 0] == expected("qwen2", RAGGED[:1])[0]
        quiet(pipe)


def test_a_stream_that_was_dropped_is_not_asked_for_room() -> None:
    with pipe_of(tokens=44) as pipe:
        dropped = pipe.stream(RAGGED[0], max_tokens=TOKENS)
        next(dropped)
        del dropped
        quiet(pipe)
        assert collected(pipe.stream(RAGGED[2], max_tokens=TOKENS))[0, 0] == expected("qwen2", RAGGED)[2]
        assert pipe.counters.parked == 0
