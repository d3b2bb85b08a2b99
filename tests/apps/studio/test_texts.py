"""Questions to a document over the live socket: in the prompt, as an adapter, and without it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from apps.studio.studio import Studio
from streamgen.models.doc_lora_loading import save_doc_lora
from tests.apps.studio.fakes import Page, held, serving, until
from tests.models.doc_lora_models import AFFIXES, SIZES, language_model, loaded

Served = tuple[TestClient, Studio]
WORDS = (
    "ada",
    "ben",
    "carries",
    "a",
    "map",
    "lives",
    "in",
    "the",
    "desert",
    "what",
    "does",
    "carry",
    ".",
    "?",
)
MARKS = ("<pad>", "<unk>", "<doc>", "<ask>", "<say>", "<end>")
DOCUMENT = "Ada lives in the desert. Ben carries a map."
QUESTION = "what does Ben carry?"


def words() -> PreTrainedTokenizerFast:
    known = [*MARKS, *WORDS]
    known += [f"w{number}" for number in range(SIZES["vocab_size"] - len(known))]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", eos_token="<end>"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama; beside it itself as a draft, and a random hypernetwork."""
    home = tmp_path_factory.mktemp("texts")
    for name in ("tiny", "tiny-draft"):
        language_model("llama").save_pretrained(home / name)
        words().save_pretrained(home / name)
    save_doc_lora(home / "tiny-documents", loaded().network, None, AFFIXES)
    return home / "tiny"


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving({"text": folder}) as both:
        yield both


def written(page: Page, **how: Any) -> dict[str, Any]:
    page.ask("write", question=QUESTION, **{"max_tokens": 12, **how})
    return page.note("written")


def test_a_document_in_the_prompt_is_remembered_and_given_back_with_the_page(served: Served) -> None:
    client, studio = served
    with client.websocket_connect("/live/text") as socket:
        page = Page(socket)
        told = page.note("model")
        assert (told["draft"], told["documents"]) == (True, True)
        first = written(page, document=DOCUMENT)
        assert first["prompt_tokens"] == 2 + 11 + 2 + 5  # document and question in their marks
        assert first["tokens"] == [12] and first["cache_bytes"] == first["alone_bytes"] > 0
        assert held(studio) > 0
        again = written(page, document=DOCUMENT)
        assert again["texts"] == first["texts"]
        assert again["shared_tokens"] == 16  # a whole page
        pools = client.get("/memory").json()["sessions"][0]["pools"]
        assert [pool["owner"] for pool in pools] == ["texts"]
        page.ask("stop")
        page.note("stopped")
        assert held(studio) == 0
        page.ask("write", question=QUESTION, document=DOCUMENT)
        page.note("started")
    until(lambda: held(studio) == 0 and not studio.players, seconds=2)


def test_samples_share_the_pages_of_their_prompt(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/text") as socket:
        page = Page(socket)
        four = written(page, document=DOCUMENT, samples=4, temperature=1.0, seed=3)
        assert len(set(four["texts"])) > 1
        assert four["cache_bytes"] < four["alone_bytes"]
        page.ask("write", question=QUESTION, samples=9, temperature=1.0)
        assert "9 texts of one prompt were asked for and 8" in page.note("refused")["why"]
        page.ask("write", question=QUESTION, samples=2)
        assert "would all be the same text" in page.note("refused")["why"]


def test_a_document_becomes_an_adapter_that_only_its_session_knows(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/text") as one, client.websocket_connect("/live/text") as two:
        page, other = Page(one), Page(two)
        page.ask("write", question=QUESTION, way="adapter")
        assert "No document was read" in page.note("refused")["why"]
        page.ask("read", document=DOCUMENT)
        read = page.note("was read")
        assert read["tokens"] == 11 and min(read["adapter_bytes"], read["cache_bytes"]) > 0
        page.ask("write", question=QUESTION, way="adapter", max_tokens=12)
        beside = written(other, way="nothing")
        known, bare = page.note("written"), written(page, way="nothing")
        assert known["prompt_tokens"] == bare["prompt_tokens"] < 10
        assert known["adapter_bytes"] == read["adapter_bytes"]
        assert known["texts"] != bare["texts"] == beside["texts"]
        assert written(page, way="adapter")["texts"] == known["texts"]


def test_what_a_draft_proposed_is_told_and_the_text_is_the_same(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/text") as socket:
        page = Page(socket)
        drafted, plain = (written(page, document=DOCUMENT, drafted=drafted) for drafted in (True, False))
        assert drafted["texts"] == plain["texts"] and not plain["steps"]
        assert drafted["proposed"] == drafted["accepted"] > 0  # it is its own draft
        for step in drafted["steps"]:
            assert step["parents"][0] == -1 and len(step["words"]) == len(step["parents"]) > 1
            path = [step["parents"][node] for node in step["accepted"]]
            assert path == [0, *step["accepted"][:-1]]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"do": "write", "question": " "}, "No question was asked"),
        ({"do": "write", "question": "what", "way": "magic"}, "no way 'magic'"),
        ({"do": "write", "question": "what", "document": "a " * 500}, "more than the 128"),
        ({"do": "write", "question": "what", "seed": -1}, "is no seed"),
        ({"do": "write", "question": "what", "max_tokens": 0}, "makes no text"),
        ({"do": "read", "document": " "}, "document is empty"),
        ({"do": "undo"}, "Texts do not know 'undo'"),
    ],
)
def test_a_wrong_order_is_refused_with_a_sentence(served: Served, order: dict[str, Any], said: str) -> None:
    client, _ = served
    with client.websocket_connect("/live/text") as socket:
        page = Page(socket)
        page.ask(**order)
        assert said in page.note("refused")["why"]


def test_words_that_the_model_lacks_are_named(served: Served) -> None:
    client, _ = served
    with client.websocket_connect("/live/text") as socket:
        page = Page(socket)
        page.ask("write", question="what does Zeus carry?", max_tokens=2)
        assert "no word for zeus" in page.note("warning")["why"]
        page.note("written")


def test_without_draft_and_hypernetwork_the_tab_says_what_to_put_there(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").symlink_to(folder)
    with (
        serving({"text": tmp_path / "alone"}) as (client, _),
        client.websocket_connect("/live/text") as socket,
    ):
        page = Page(socket)
        told = page.note("model")
        assert not told["draft"] and not told["documents"]
        page.ask("read", document=DOCUMENT)
        assert "a folder" in page.note("refused")["why"]
        page.ask("write", question=QUESTION, drafted=True)
        assert "No draft model lies beside" in page.note("refused")["why"]


def test_a_checkpoint_that_did_not_come_is_said_on_its_tab() -> None:
    with serving({"text": Path("no-such-lm")}) as (client, _):
        [model] = client.get("/loading").json()["models"]
        assert "'no-such-lm' is neither a folder nor a known checkpoint" in model["trouble"]
