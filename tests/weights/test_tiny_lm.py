"""The bundled `tiny-lm`: answers about documents it has never seen, in the prompt or known by an adapter."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from streamgen.cli.checksums import mismatches
from streamgen.models.doc_lora_loading import load_doc_lora
from streamgen.models.registry import registry, resolve
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_documents import TextDocuments
from streamgen.runtime.plan import dense_cache
from weights.recipes.tiny_lm import hyper
from weights.recipes.tiny_lm.evaluate import accuracy, load
from weights.recipes.tiny_lm.facts import document
from weights.recipes.tiny_lm.text import prompt

NAMES = ("tiny-lm", "tiny-lm-draft", "tiny-lm-documents")


@pytest.fixture(scope="module")
def pipe() -> TextPipeline:
    return TextPipeline.from_pretrained("tiny-lm", tokens=2048)


def said(pipe: TextPipeline, prompts: Sequence[str], tokens: int) -> list[str]:
    texts = [""] * len(prompts)
    for chunk in pipe.stream(list(prompts), max_tokens=tokens):
        texts[chunk.prompt] += chunk.text
    return [text.strip() for text in texts]


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_the_registered_ones(name: str) -> None:
    assert mismatches(resolve(name), registry()[name].facts["files"]) == []


def test_model_and_draft_take_at_most_12_mb() -> None:
    files = [file for name in NAMES[:2] for file in resolve(name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 12e6


@pytest.mark.parametrize("facts", [8, 24])
def test_nearly_every_answer_is_right_with_the_document_in_the_prompt(facts: int) -> None:
    assert accuracy(load(resolve("tiny-lm")), facts, 100)[0] >= 0.98


@pytest.mark.parametrize("facts", [4, 8])
def test_documents_known_by_an_adapter_are_recalled_at_80_percent_of_that(facts: int) -> None:
    """Questions alone in the prompt; without the adapter they are guesses."""
    model, network = load(resolve("tiny-lm")), load_doc_lora(resolve("tiny-lm-documents")).network
    known = hyper.recall(model, network, facts, 144)
    assert known >= 0.8 * accuracy(model, facts, 100)[0]
    assert hyper.recall(model, hyper.network(model), facts, 48) <= 0.3  # untrained: adapters change nothing


def test_the_pipeline_reads_a_document_once_and_answers_without_it(pipe: TextPipeline) -> None:
    rng, right, guessed = np.random.default_rng(10**7), [], []
    documents = TextDocuments(pipe, "tiny-lm-documents")
    for _ in range(12):
        told = document(4, rng)
        prompts = [prompt(None, fact.asked(rng)) for fact in told.facts]
        answers = [fact.value for fact in told.facts]
        guessed += [one == other for one, other in zip(said(pipe, prompts, 2), answers, strict=True)]
        with documents.known(documents.internalize(told.text)):
            right += [one == other for one, other in zip(said(pipe, prompts, 2), answers, strict=True)]
    assert np.mean(right) >= 0.8 and np.mean(guessed) <= 0.4


def test_an_adapter_is_as_large_for_every_document_and_pages_grow_with_it(pipe: TextPipeline) -> None:
    rng, config = np.random.default_rng(0), pipe.model.model.config
    documents = TextDocuments(pipe, "tiny-lm-documents")
    sizes, pages = [], []
    for facts in (2, 8):
        text = document(facts, rng, scene=0).text
        sizes.append(documents.internalize(text).nbytes)
        heads = (config.num_key_value_heads, config.head_dim)
        tokens = len(text.split()) + 2
        pages.append(dense_cache(config.num_hidden_layers, *heads, tokens, 1, torch.float32).nbytes)
    per_row = config.intermediate_size + config.hidden_size
    assert sizes == [4 * config.num_hidden_layers * hyper.RANK * per_row] * 2
    assert pages[0] < sizes[0] and pages[1] > 2 * pages[0]


def test_the_draft_is_right_most_of_the_time_and_changes_no_text(pipe: TextPipeline) -> None:
    rng = np.random.default_rng(5)
    told = [document(4, rng) for _ in range(6)]
    prompts = [prompt(one.text, one.facts[0].asked(rng)) for one in told] + [
        f"<doc> {one.text}" for one in told
    ]
    before = pipe.counters.passes
    plain = said(pipe, prompts, 24)
    with TextPipeline.from_pretrained("tiny-lm", draft="tiny-lm-draft", tokens=4096) as drafted:
        assert said(drafted, prompts, 24) == plain
        assert drafted.counters.acceptance >= 0.6
        assert drafted.counters.passes < 0.7 * (pipe.counters.passes - before)
    assert plain[:6] == [one.facts[0].value for one in told]
