"""Who waits, who is parked, who is refused; what texts share, and what that saves."""

from typing import Any

import pytest

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena, ArenaFullError
from streamgen.pipelines.text import TextPipeline
from tests.models import lms
from tests.pipelines.texts import RAGGED, collected, generated, pipe_of


def expected(family: str, tokens: int) -> list[list[int]]:
    return [generated(lms.stock(family), prompt, tokens)[0] for prompt in RAGGED]


def quiet(pipe: TextPipeline) -> None:
    """Every page has come back and every count agrees."""
    for group in pipe.memory.groups:
        group.pool.check()
        assert group.pool.counters().used == 0


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("tokens", [56, 72, 120])
def test_texts_wait_and_are_parked_where_memory_is_short_and_come_out_the_same(
    family: str, tokens: int
) -> None:
    with pipe_of(family, tokens=tokens) as pipe:
        texts = collected(pipe.stream(RAGGED, max_tokens=20))
        assert [texts[number, 0] for number in range(len(RAGGED))] == expected(family, 20)
        assert pipe.counters.parked == pipe.counters.resumed
        quiet(pipe)


def test_a_group_of_samples_is_parked_whole_and_keeps_its_sharing_and_its_chance() -> None:
    wish: dict[str, Any] = {"temperature": 0.9, "samples": 3, "max_tokens": 16, "seed": 2}
    with pipe_of() as pipe:
        roomy = collected(pipe.stream(RAGGED, **wish))
        assert pipe.counters.parked == 0
    with pipe_of(tokens=100) as pipe:
        assert collected(pipe.stream(RAGGED, **wish)) == roomy
        assert pipe.counters.parked == pipe.counters.resumed > 0
        quiet(pipe)


def test_beams_are_parked_and_found_again() -> None:
    with pipe_of() as pipe:
        roomy = list(pipe.stream(RAGGED, max_tokens=10, beams=3))
    with pipe_of(tokens=80) as pipe:
        tight = list(pipe.stream(RAGGED, max_tokens=10, beams=3))
        assert pipe.counters.parked > 0
        quiet(pipe)
    assert sorted((c.prompt, c.sample, c.tokens) for c in tight) == sorted(
        (c.prompt, c.sample, c.tokens) for c in roomy
    )


def test_speculating_texts_are_parked_too() -> None:
    draft = pipe_of("qwen2", 9).model
    with pipe_of("llama", tokens=64, draft=draft, widths=(2, 1)) as pipe:
        texts = collected(pipe.stream(RAGGED, max_tokens=16))
        assert [texts[number, 0] for number in range(len(RAGGED))] == expected("llama", 16)
        assert pipe.counters.parked > 0
        quiet(pipe)


def test_what_would_not_fit_even_alone_is_refused_at_once_and_the_rest_is_not_touched() -> None:
    with pipe_of(tokens=40) as pipe:
        with pytest.raises(UsageError, match="may need .* pages of 4 tokens and .* has 10"):
            pipe.stream([RAGGED[0], RAGGED[2]], max_tokens=40)
        assert pipe.counters.prompt_tokens == 0
        quiet(pipe)


def test_no_more_texts_are_written_at_once_than_were_allowed() -> None:
    with pipe_of(texts=2) as pipe:
        most, seen = 0, set()
        for chunk in pipe.stream(RAGGED, max_tokens=6):
            seen.add(chunk.prompt)
            most = max(most, len(pipe.memory.groups[0].pool.caches))
        assert most <= 2 and seen == {0, 1, 2, 3}


def test_a_memory_larger_than_the_budget_is_refused_and_leaves_nothing_behind() -> None:
    arena = Arena("64KiB")
    with pytest.raises(ArenaFullError, match="text memory"):
        pipe_of("gemma3", memory=arena)
    assert arena.held == 0


PREFIX = tuple(range(10, 34))


def test_prompts_that_begin_alike_share_pages_in_one_call_and_in_later_ones() -> None:
    prompts = [(*PREFIX, 1, 2), (*PREFIX, 3), (*PREFIX, 4, 5, 6)]
    truth = [generated(lms.stock("qwen2"), prompt, 8)[0] for prompt in prompts]
    with pipe_of() as pipe:
        texts = collected(pipe.stream(prompts, max_tokens=8))
        assert [texts[number, 0] for number in range(3)] == truth
        assert pipe.counters.shared_tokens == 2 * len(PREFIX)
        assert pipe.counters.prompt_tokens == sum(map(len, prompts)) - 2 * len(PREFIX)
        before = pipe.counters.prompt_tokens
        assert collected(pipe.stream(prompts[1], max_tokens=8)) == {(0, 0): truth[1]}
        assert pipe.counters.prompt_tokens - before == 1  # the last token is always computed
        quiet(pipe)


def test_a_conversation_goes_on_from_what_was_written() -> None:
    with pipe_of() as pipe:
        answer = collected(pipe.stream(RAGGED[0], max_tokens=9))[0, 0]
        before = pipe.counters.prompt_tokens
        longer = [*RAGGED[0], *answer, 8, 9]
        texts = collected(pipe.stream(longer, max_tokens=6))
        assert texts[0, 0] == generated(lms.stock("qwen2"), longer, 6)[0]
        assert pipe.counters.prompt_tokens - before < 7


def test_changed_weights_make_what_was_remembered_void() -> None:
    with pipe_of() as pipe:
        collected(pipe.stream(RAGGED[2], max_tokens=2))
        weight = pipe.model.model.get_decoder().layers[0].self_attn.v_proj.weight
        weight.mul_(-1)
        pipe.weights_changed()
        changed = lms.stock("qwen2")
        changed.get_decoder().layers[0].self_attn.v_proj.weight.mul_(-1)
        texts = collected(pipe.stream(RAGGED[2], max_tokens=6))
        assert texts[0, 0] == generated(changed, RAGGED[2], 6)[0]


@pytest.mark.parametrize("samples", [2, 4, 6])
def test_samples_share_the_prompt_and_copy_one_page_each_at_most(samples: int) -> None:
    with pipe_of(page_size=4) as pipe:
        pool = pipe.memory.groups[0].pool
        copies, most = pool.tally.copies, 0
        stream = pipe.stream(RAGGED[2], max_tokens=8, samples=samples, temperature=1.0)
        for _ in stream:
            now = pool.tally.copies
            most, copies = max(most, now - copies), now
        assert pool.tally.copies <= samples and most <= samples


@pytest.mark.parametrize(
    ("prompts", "most"),
    [
        ([(40, 22, 15, 40), (21, 33, 23, 10), (22, 28, 46, 29), (23,)], [8, 1, 2, 1]),
        ([(50, 59), (39, 2, 11, 47, 31, 49), (9, 1, 56, 12), (33, 29, 24, 29)], [8, 2, 1, 1]),
    ],
)
def test_a_request_that_ended_in_this_step_is_not_the_one_to_make_room(
    prompts: list[tuple[int, ...]], most: list[int]
) -> None:
    draft = pipe_of("qwen2", 9).model
    with pipe_of("llama", tokens=18, page_size=2, chunk=3, draft=draft, widths=(2, 1)) as pipe:
        texts = collected(pipe.stream(prompts, max_tokens=most, ignore_stop=True))
        assert [texts[number, 0] for number in range(len(prompts))] == [
            generated(lms.stock("llama"), prompt, count, eos_token_id=None)[0]
            for prompt, count in zip(prompts, most, strict=True)
        ]
        assert pipe.counters.parked > 0
        quiet(pipe)


@pytest.mark.parametrize("tokens", [32, 36, 44])
def test_who_came_first_comes_back_first(tokens: int) -> None:
    with pipe_of(tokens=tokens) as pipe:
        engine = pipe.open(pipe.requests(RAGGED[:2] * 2, max_tokens=20, ignore_stop=True))
        most = 0
        while engine.busy:
            engine.step()
            running, parked = (
                [group.index for group in engine.running],
                [one.group.index for one in engine.parked],
            )
            assert running == sorted(running) and parked == sorted(parked)
            assert not running or not parked or running[-1] < parked[0]
            most = max(most, len(parked))
        assert most > 1
        quiet(pipe)
