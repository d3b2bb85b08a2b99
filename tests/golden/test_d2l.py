"""Doc-to-LoRA against the public code: features, latents, factors, adapters, logits, a checkpoint."""

from pathlib import Path

import pytest
import torch

from streamgen.models.doc_lora_apply import applied, merged
from streamgen.models.doc_lora_chunks import split
from streamgen.models.doc_lora_encoder import features
from streamgen.models.doc_lora_loading import load_doc_lora
from tests.golden.d2l_models import CASES, FOLDERS, PICKLES, mended, recorded
from tests.golden.fixtures import named


def each(cases: list[tuple[Path, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("folder", "case"), cases, ids=lambda value: getattr(value, "name", value))


EACH = each(CASES)
SINGLE = each([pair for pair in CASES if pair[1] != "ragged_batch"])


def test_there_are_numbers_to_compare_with() -> None:
    assert len(FOLDERS) >= 3 and len(CASES) >= 9 and PICKLES


@EACH
@torch.no_grad()
def test_d2l_documents_are_cut_into_the_same_chunks(folder: Path, case: str) -> None:
    run = recorded(folder)
    documents, longest = run.documents(case)
    chunks = [chunk for ids in documents for chunk in split(ids, run.affixes, longest)]
    rows, mask = run.tensors[f"{case}.ctx_ids"], run.tensors[f"{case}.ctx_attn_mask"].bool()
    assert chunks == [row[seen].tolist() for row, seen in zip(rows, mask, strict=True)]


@EACH
@torch.no_grad()
def test_d2l_a_padded_batch_of_chunks_gives_the_same_factors(folder: Path, case: str) -> None:
    run = recorded(folder)
    mask = run.tensors[f"{case}.ctx_attn_mask"].bool()
    heard = torch.stack(features(run.model, run.tensors[f"{case}.ctx_ids"], mask), 1)
    seen = mask[:, None, :, None]
    wanted = run.tensors[f"{case}.features"] * seen  # what stands under padding means nothing
    torch.testing.assert_close(heard * seen, wanted, atol=1e-4, rtol=0)
    network = run.loaded.network
    latents = network.latents(heard, mask)
    run.assert_close(latents, f"{case}.lora_emb")
    run.assert_close(network.refined(latents), f"{case}.pre_head")
    for name, (a, b) in network.factors(latents).items():
        run.assert_close(a, f"{case}.chunk.{name}.A")
        run.assert_close(b, f"{case}.chunk.{name}.B")


@EACH
@torch.no_grad()
def test_d2l_internalized_documents_give_the_same_answers(folder: Path, case: str) -> None:
    run = recorded(folder)
    documents, longest = run.documents(case)
    adapters = [run.reader.internalize_ids(ids, longest) for ids in documents]
    for number, adapter in enumerate(adapters):
        for name, (a, b) in adapter.matrices().items():
            for matrix, side in ((a, "A"), (b, "B")):
                key = f"{case}.combined.{name}.{side}"
                wanted = run.tensors[key][number]
                torch.testing.assert_close(matrix, wanted[:, : adapter.rank], atol=1e-4, rtol=0)
                assert not wanted[:, adapter.rank :].any()
    query = run.tensors[f"{case}.query_ids"]
    run.assert_close(run.model(query).logits, f"{case}.logits_base")
    with applied(run.model, adapters):
        run.assert_close(run.model(query).logits, f"{case}.logits")
    run.assert_close(run.model(query).logits, f"{case}.logits_base")


@SINGLE
@torch.no_grad()
def test_d2l_merged_weights_give_the_same_answers(folder: Path, case: str) -> None:
    run = recorded(folder)
    (ids,), longest = run.documents(case)
    with merged(run.model, run.reader.internalize_ids(ids, longest)):
        run.assert_close(run.model(run.tensors[f"{case}.query_ids"]).logits, f"{case}.logits")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@torch.no_grad()
def test_d2l_greedy_text_is_the_same(folder: Path) -> None:
    run = recorded(folder)
    (ids,), longest = run.documents("three")
    query = run.tensors["three.query_ids"]
    with applied(run.model, run.reader.internalize_ids(ids, longest)):
        text = run.model.generate(query, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert torch.equal(text, run.tensors["three.greedy"])


@pytest.mark.parametrize("pickle", PICKLES, ids=named)
def test_d2l_the_published_pickle_is_the_same_network(pickle: Path, tmp_path: Path) -> None:
    loaded = load_doc_lora(mended(pickle, tmp_path))
    twin = load_doc_lora(pickle.with_name("hypernet.safetensors"))
    assert loaded.network.config == twin.network.config
    assert loaded.base and loaded.base.startswith("google/gemma-2")
    state, wanted = loaded.network.state_dict(), twin.network.state_dict()
    assert state.keys() == wanted.keys()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in state.items())
