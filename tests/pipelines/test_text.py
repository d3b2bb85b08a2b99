"""Texts: what transformers writes, for every family and kernel, batched or alone; samples, beams, stops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from streamgen.attention.contract import KernelError
from streamgen.attention.kernels.cascade import Cascade
from streamgen.attention.trunks import longest_trunk
from streamgen.errors import UsageError
from streamgen.kv.stage import Stage
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_request import TextSampling
from tests.models import lms
from tests.pipelines.texts import RAGGED, collected, generated, pipe_of

KERNELS = ("reference", "sdpa", "segments", "cascade", "flex", "auto")
UNCAPPED = ("sdpa", "segments", "cascade")
ALIKE = [(*RAGGED[2][:17], *end) for end in RAGGED]  # 17 tokens in common, four full pages of them


@pytest.mark.parametrize("attention", KERNELS)
@pytest.mark.parametrize("family", lms.FAMILIES)
def test_greedy_text_is_what_generate_writes_batched_and_alone(family: str, attention: str) -> None:
    if family == "gemma2" and attention in UNCAPPED:
        with pipe_of(family, attention=attention) as pipe, pytest.raises(KernelError, match="soft-capped"):
            collected(pipe.stream(RAGGED[1], max_tokens=1))
        return
    prompts, tokens, chunk = RAGGED, 12 if attention in ("cascade", "auto") else 20, 8
    if attention == "flex":  # every new shape of a stage costs it a self-test of half a second: fewer
        prompts, tokens, chunk = RAGGED[::3], 3, 16
    expected = [generated(lms.stock(family), prompt, tokens)[0] for prompt in prompts]
    with pipe_of(family, attention=attention, chunk=chunk) as pipe:
        together = collected(pipe.stream(prompts, max_tokens=tokens))
        assert [together[number, 0] for number in range(len(prompts))] == expected
        for prompt, text in zip(prompts, expected, strict=True):
            assert collected(pipe.stream(prompt, max_tokens=tokens)) == {(0, 0): text}


@pytest.mark.parametrize("attention", ["cascade", "auto"])
@pytest.mark.parametrize("family", ["llama", "llama_mqa", "qwen2", "qwen3"])
def test_texts_that_begin_alike_read_their_beginning_together(
    family: str, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [generated(lms.stock(family), prompt, 12)[0] for prompt in ALIKE]
    shared = []
    plain = Cascade.plan

    def recorded(kernel: Cascade, stages: Any, q_heads: int) -> Any:
        if isinstance(stages[0], Stage):  # not a self-test
            shared.append(longest_trunk([stage.views[0] for stage in stages], [s.mask for s in stages]))
        return plain(kernel, stages, q_heads)

    monkeypatch.setattr(Cascade, "plan", recorded)
    with pipe_of(family, attention=attention) as pipe:
        texts = collected(pipe.stream(ALIKE, max_tokens=12))
    assert [texts[number, 0] for number in range(len(ALIKE))] == expected
    assert max(shared) == 16


@pytest.mark.parametrize("attention", ["cascade", "auto"])
@pytest.mark.parametrize("family", ["mistral", "gemma3", "qwen3"])
def test_samples_that_share_a_trunk_are_those_of_a_plain_loop(family: str, attention: str) -> None:
    """They share a trunk, in windows too, until these move on."""
    how = TextSampling(temperature=0.8, seed=5)
    expected = [plainly_sampled(family, RAGGED[0], 8, how, sample) for sample in range(3)]
    with pipe_of(family, attention=attention) as pipe:
        texts = collected(pipe.stream(RAGGED[0], max_tokens=8, temperature=0.8, seed=5, samples=3))
    assert [texts[0, sample] for sample in range(3)] == expected


@pytest.mark.parametrize("chunk", [1, 3, 8, 64])
def test_the_size_of_prompt_chunks_changes_nothing(chunk: int) -> None:
    expected = [generated(lms.stock("gemma3"), prompt, 12)[0] for prompt in RAGGED]
    with pipe_of("gemma3", chunk=chunk) as pipe:
        texts = collected(pipe.stream(RAGGED, max_tokens=12))
    assert [texts[number, 0] for number in range(len(RAGGED))] == expected


def plainly_sampled(
    family: str, prompt: tuple[int, ...], tokens: int, how: TextSampling, sample: int
) -> list[int]:
    """An independent loop over the stock model with the same dice."""
    model, text = lms.stock(family), list(prompt)
    for place in range(tokens):
        logits = model(torch.tensor([text]), use_cache=False).logits[0, -1]
        text.append(how.dice(sample, place).pick(how.chances(logits)))
    return text[len(prompt) :]


def test_sampled_text_hangs_on_its_seed_alone_not_on_its_neighbours() -> None:
    how = TextSampling(temperature=0.8, top_k=20, top_p=0.95, seed=5)
    options: dict[str, Any] = {"temperature": 0.8, "top_k": 20, "top_p": 0.95, "seed": 5, "max_tokens": 10}
    with pipe_of("qwen3") as pipe:
        together = collected(pipe.stream(RAGGED, samples=3, **options))
        alone = collected(pipe.stream(RAGGED[2], samples=3, **options))
    for number, prompt in enumerate(RAGGED):
        for sample in range(3):
            assert together[number, sample] == plainly_sampled("qwen3", prompt, 10, how, sample)
    assert [alone[0, sample] for sample in range(3)] == [together[2, sample] for sample in range(3)]
    assert len({tuple(text) for text in alone.values()}) == 3


def test_top_k_one_is_greedy_and_draws_follow_the_distribution() -> None:
    logits = torch.randn(7, generator=torch.Generator().manual_seed(1))
    greedy = TextSampling(temperature=1.0, top_k=1)
    assert greedy.dice(0, 0).pick(greedy.chances(logits)) == int(logits.argmax())
    how = TextSampling(temperature=0.7)
    draws = torch.tensor([how.dice(0, place).pick(how.chances(logits)) for place in range(4000)])
    shares = torch.bincount(draws, minlength=7) / len(draws)
    torch.testing.assert_close(shares.double(), (logits.double() / 0.7).softmax(-1), atol=0.03, rtol=0)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.0), (5, 0.0), (0, 0.8), (5, 0.8), (9, 0.3), (40, 0.9)])
def test_chances_are_those_that_generate_draws_from(temperature: float, top_k: int, top_p: float) -> None:
    """Temperature, then top-k, then top-p, which counts shares of what top-k has left."""
    logits = 2 * torch.randn(40, lms.VOCABULARY, generator=torch.Generator().manual_seed(3))
    warped = TemperatureLogitsWarper(temperature)(None, logits.double())
    warped = TopKLogitsWarper(top_k)(None, warped) if top_k else warped
    warped = TopPLogitsWarper(top_p)(None, warped) if top_p else warped
    given = TextSampling(temperature, top_k, top_p).chances(logits)
    torch.testing.assert_close(given, warped.softmax(-1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
@pytest.mark.parametrize("penalty", [0.0, 1.5])
def test_beams_are_those_of_generate(family: str, beams: int, penalty: float) -> None:
    stock = lms.stock(family)
    stop = generated(stock, RAGGED[0], 4)[0][-1]
    for stops in ([], [stop, 7]):
        stock.generation_config.eos_token_id = stops or None
        expected = generated(
            stock, RAGGED[0], 12, num_beams=beams, num_return_sequences=beams, length_penalty=penalty
        )
        with pipe_of(family) as pipe:
            pipe.model.model.generation_config.eos_token_id = stops or None
            chunks = list(pipe.stream(RAGGED[0], max_tokens=12, beams=beams, length_penalty=penalty))
        assert [chunk.sample for chunk in chunks] == list(range(beams))
        for chunk, text in zip(chunks, expected, strict=True):
            rest = text[len(chunk.tokens) :]  # generate fills up what ended early
            assert list(chunk.tokens) == text[: len(chunk.tokens)] and set(rest) <= {0, *stops}
        assert sorted((chunk.score or 0 for chunk in chunks), reverse=True) == [c.score for c in chunks]


def stopping(seed: int, stops: list[int]) -> Any:
    """A model of nine tokens that likes its stop tokens: beams end early, and many at once."""
    model = lms.stock("llama", seed, vocab_size=9, num_hidden_layers=1)
    liking = torch.zeros(9)
    liking[stops] = 2.0
    model.lm_head.bias = torch.nn.Parameter(liking, requires_grad=False)
    model.generation_config.eos_token_id = stops
    return model


@pytest.mark.parametrize("stops", [[1, 2], [0, 2, 5, 6]])
@pytest.mark.parametrize("beams", [2, 4, 5])
def test_beams_that_end_early_and_often_are_those_of_generate(beams: int, stops: list[int]) -> None:
    """Enough candidates that some run on, and an end as soon as none of these can be better."""
    prompt, options = [3, 5, 1, 6], {"num_beams": beams, "num_return_sequences": beams}
    for seed in range(4):
        with TextPipeline(LanguageModel(stopping(seed, stops)), tokens=512, page_size=4) as pipe:
            for penalty in (-1.0, 0.0, 1.0, 2.5):
                out = stopping(seed, stops).generate(
                    torch.tensor([prompt]),
                    max_new_tokens=8,
                    length_penalty=penalty,
                    pad_token_id=8,
                    return_dict_in_generate=True,
                    output_scores=True,
                    **options,
                )
                chunks = list(pipe.stream(prompt, max_tokens=8, beams=beams, length_penalty=penalty))
                texts = [[*chunk.tokens, *[8] * 8] for chunk in chunks]
                rows = out.sequences[:, len(prompt) :].tolist()
                assert [text[: len(rows[0])] for text in texts] == rows
                scores = torch.tensor([chunk.score for chunk in chunks])
                torch.testing.assert_close(scores, out.sequences_scores, atol=1e-4, rtol=1e-5)


def test_a_stop_token_ends_a_text_and_is_told_unless_it_is_ignored() -> None:
    stock = lms.stock("llama")
    whole = generated(stock, RAGGED[0], 12)[0]
    end = whole.index(whole[5])
    with pipe_of("llama") as pipe:
        pipe.model.model.generation_config.eos_token_id = whole[5]
        chunks = list(pipe.stream(RAGGED[0], max_tokens=12))
        ignored = collected(pipe.stream(RAGGED[0], max_tokens=12, ignore_stop=True))
    assert [token for chunk in chunks for token in chunk.tokens] == whole[: end + 1]
    assert [chunk.finished for chunk in chunks] == [""] * end + ["stop"]
    assert ignored == {(0, 0): whole}


def test_tokens_come_as_they_are_decided_and_a_stream_that_is_left_gives_its_pages_back() -> None:
    with pipe_of() as pipe:
        stream = pipe.stream(RAGGED, max_tokens=200)
        first = [next(stream) for _ in range(16)]
        assert {chunk.prompt for chunk in first} == {0, 1, 2, 3} and pipe.counters.passes < 10
        assert pipe.memory.groups[0].pool.counters().used > 0
        stream.close()
        assert pipe.memory.groups[0].pool.counters().used == 0
        pipe.memory.groups[0].pool.check()


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"seed": -1}, "seed"),
        ({"samples": 2}, "temperature 0"),
        ({"beams": 2, "temperature": 1.0}, "Beam search"),
        ({"samples": 17, "temperature": 1.0}, "written at once"),
        ({"max_tokens": 300}, "made for"),
    ],
)
def test_an_impossible_wish_is_refused_before_anything_is_computed(wish: dict[str, Any], says: str) -> None:
    with pipe_of() as pipe, pytest.raises(UsageError, match=says):
        pipe.stream(RAGGED[0], **wish)


@pytest.mark.parametrize(
    ("prompt", "says"),
    [([], "No prompt"), ([[]], "no tokens"), ([[61]], "unknown"), ("words", "no tokenizer")],
)
def test_a_prompt_that_cannot_be_read_is_refused(prompt: Any, says: str) -> None:
    with pipe_of() as pipe, pytest.raises(UsageError, match=says):
        pipe.stream(prompt)


def test_an_unknown_kernel_and_a_draft_of_another_vocabulary_are_refused() -> None:
    with pytest.raises(KernelError, match="no kernel 'fast'"):
        pipe_of(attention="fast")
    other = pipe_of("llama").model
    other.vocabulary = 50
    with pytest.raises(UsageError, match="same tokenizer"):
        pipe_of(draft=other)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_token_ids_come_in_any_sequence(kind: Callable[[list[int]], Any]) -> None:
    with pipe_of("llama") as pipe:
        wanted = [chunk.tokens for chunk in pipe.stream([8, 6, 7], max_tokens=3)]
        assert [chunk.tokens for chunk in pipe.stream(kind([8, 6, 7]), max_tokens=3)] == wanted
        both = [chunk.tokens for chunk in pipe.stream([kind([8, 6, 7]), kind([5, 2])], max_tokens=3)]
        assert both[0] == wanted[0] and len(both) == 2 * len(wanted)


@pytest.mark.parametrize("prompt", [None, 5, b"abc", [8.0, 6.0], [[1.5]], [b"abc"], [None]])
def test_what_is_no_prompt_is_refused_in_a_sentence(prompt: Any) -> None:
    with pipe_of("llama") as pipe, pytest.raises(UsageError, match="give a text"):
        pipe.stream(prompt)
