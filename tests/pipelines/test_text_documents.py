"""Documents through a TextPipeline: the same adapters as by stock code, and texts that depend on them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from streamgen.errors import UsageError
from streamgen.models.doc_lora_apply import applied
from streamgen.models.doc_lora_chunks import Affixes
from streamgen.models.doc_lora_reader import DocToLora
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_documents import TextDocuments
from tests.golden.d2l_models import FOLDERS, base_model, recorded
from tests.models.doc_lora_models import FAMILIES, language_model, loaded
from tests.models.tiny import tokenizer

DOCUMENT = [2, 3, *range(10, 33), 4]


def pipe_of(model: Any, **options: Any) -> TextPipeline:
    return TextPipeline(LanguageModel(model), **{"tokens": 512, "chunk": 8, "page_size": 4} | options)


def texts(pipe: TextPipeline, prompts: list[list[int]], tokens: int = 8) -> list[list[int]]:
    written: dict[int, list[int]] = {}
    for chunk in pipe.stream(prompts, max_tokens=tokens, ignore_stop=True):
        written.setdefault(chunk.prompt, []).extend(chunk.tokens)
    return [written[number] for number in range(len(prompts))]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk_tokens", [None, 10])
def test_a_document_read_in_pages_and_pieces_gives_the_same_adapter(
    family: str, chunk_tokens: int | None
) -> None:
    wanted = DocToLora(language_model(family), loaded()).internalize_ids(DOCUMENT, chunk_tokens)
    with pipe_of(language_model(family)) as pipe:
        made = TextDocuments(pipe, loaded()).internalize_ids(DOCUMENT, chunk_tokens)
        assert all(group.pool.counters().used == 0 for group in pipe.memory.groups)
    torch.testing.assert_close(made.change("down_proj"), wanted.change("down_proj"), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_streaming_pipeline_writes_the_recorded_text(folder: Any) -> None:
    run = recorded(folder)
    (ids,), longest = run.documents("three")
    query = run.tensors["three.query_ids"]
    with pipe_of(base_model(folder)) as pipe:
        documents = TextDocuments(pipe, run.loaded, run.affixes)
        with documents.known(documents.internalize_ids(ids, longest)):
            (text,) = texts(pipe, query.tolist())
    assert text == run.tensors["three.greedy"][0, query.shape[1] :].tolist()


def test_texts_depend_on_what_is_known_and_forget_it_afterwards() -> None:
    prompts = [[5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 8, 9, 10, 12]]
    with pipe_of(language_model()) as pipe:
        documents = TextDocuments(pipe, loaded())
        adapter = documents.internalize_ids(DOCUMENT)
        before = texts(pipe, prompts)
        with documents.known(adapter):
            told = texts(pipe, prompts)
        assert texts(pipe, prompts) == before != told
    stock = language_model()
    with applied(stock, adapter):
        ids = torch.tensor(prompts)
        wanted = stock.generate(
            ids, max_new_tokens=8, do_sample=False, eos_token_id=None, attention_mask=torch.ones_like(ids)
        )
    assert told == wanted[:, ids.shape[1] :].tolist()


def test_a_document_is_refused_without_room_or_words_and_leaves_no_pages() -> None:
    with pipe_of(language_model(), tokens=16) as pipe:
        documents = TextDocuments(pipe, loaded())
        with pytest.raises(MemoryError, match="page"):
            documents.internalize_ids(DOCUMENT)
        assert all(group.pool.counters().used == 0 for group in pipe.memory.groups)
        with pytest.raises(UsageError, match="no tokenizer"):
            documents.internalize("a hero")


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        ([], "has no tokens; give at least one"),
        ([3, 9999], "Token 9999 is unknown; this model knows 0 to"),
        ([3, -1], "Token -1 is unknown"),
        ("3 4", "is no list of token ids"),
        (5, "is no list of token ids"),
        ([2.5], "is no list of token ids"),
    ],
)
def test_ids_that_are_no_document_are_refused(ids: Any, why: str) -> None:
    with pipe_of(language_model()) as pipe, pytest.raises(UsageError, match=why):
        TextDocuments(pipe, loaded()).internalize_ids(ids)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3", True])
def test_chunks_that_cut_no_document_are_refused(wrong: Any) -> None:
    with (
        pipe_of(language_model()) as pipe,
        pytest.raises(UsageError, match="chunk_tokens=.* cuts no document; give a whole number from 1 on"),
    ):
        TextDocuments(pipe, loaded()).internalize_ids(DOCUMENT, wrong)


def test_arrays_of_ids_are_a_document() -> None:
    with pipe_of(language_model()) as pipe:
        documents = TextDocuments(pipe, loaded())
        made = documents.internalize_ids(torch.tensor(DOCUMENT), np.int64(10))
        wanted = documents.internalize_ids(DOCUMENT, 10)
    assert made.change("down_proj").equal(wanted.change("down_proj"))


def test_a_hypernetwork_may_be_a_path_and_nothing_else_is_one(tmp_path: Path) -> None:
    with pipe_of(language_model()) as pipe:
        with pytest.raises(UsageError, match="holds neither"):
            TextDocuments(pipe, tmp_path)
        with pytest.raises(UsageError, match="A dict is no hypernetwork; give what load_doc_lora"):
            TextDocuments(pipe, {})  # type: ignore[arg-type]


def test_a_text_is_tokenised_by_the_pipeline() -> None:
    words: PreTrainedTokenizerFast = tokenizer()
    with pipe_of(language_model()) as pipe:
        pipe.tokenizer = words
        documents = TextDocuments(pipe, loaded(), Affixes((2,), (4,)))
        ids = words("a hero walks north", add_special_tokens=False)["input_ids"]
        made, wanted = documents.internalize("a hero walks north"), documents.internalize_ids([2, *ids, 4])
        with pytest.raises(UsageError, match="A document is a text, not of type int"):
            documents.internalize(5)  # type: ignore[arg-type]
    assert made.change("down_proj").equal(wanted.change("down_proj"))


def test_a_stream_that_outlives_its_weights_leaves_nothing_for_others_to_begin_with() -> None:
    prompt = list(range(5, 30))
    with pipe_of(language_model("qwen3")) as pipe:
        documents = TextDocuments(pipe, loaded())
        adapter = documents.internalize_ids(DOCUMENT)
        with documents.known(adapter):
            alone = texts(pipe, [prompt])
        running = pipe.stream([prompt], max_tokens=12, ignore_stop=True)
        next(running)  # read without the adapter
        with documents.known(adapter):
            for _ in running:
                pass
            found = pipe.counters.shared_tokens
            assert texts(pipe, [prompt]) == alone
            assert pipe.counters.shared_tokens == found, "its keys are of other weights"


@pytest.mark.parametrize("wrong", [[], "x", None])
def test_a_pipeline_knows_one_adapter_at_a_time(wrong: Any) -> None:
    with pipe_of(language_model("mistral")) as pipe:
        documents = TextDocuments(pipe, loaded())
        with pytest.raises(UsageError, match="takes one adapter"), documents.known(wrong):
            pass


def test_a_document_that_is_longer_than_the_model_is_refused_before_it_is_read() -> None:
    with pipe_of(language_model("mistral"), tokens=4096) as pipe:
        most = pipe.model.longest
        documents = TextDocuments(pipe, loaded())
        with pytest.raises(
            UsageError, match=f"{most} are the most that this model was made for; give chunk_tokens"
        ):
            documents.internalize_ids([3] * (most + 1))
        assert documents.internalize_ids([3] * (most + 1), chunk_tokens=most // 2).nbytes > 0
