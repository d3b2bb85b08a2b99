"""Documents become adapters: reading, chunks, the sum of chunks, and what is refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from streamgen.errors import StreamgenError, StreamgenWarning, UsageError
from streamgen.models.doc_lora import HyperNetwork
from streamgen.models.doc_lora_adapter import stack
from streamgen.models.doc_lora_apply import applied
from streamgen.models.doc_lora_chunks import Affixes, document_ids, published_affixes, split
from streamgen.models.doc_lora_encoder import features
from streamgen.models.doc_lora_loading import (
    affixes_of,
    load_doc_lora,
    network_from,
    refuse_other_encoder,
    refuse_switches,
    save_doc_lora,
)
from streamgen.models.doc_lora_reader import DocToLora
from streamgen.models.transformers_attention import stream_attention
from tests.models.dense_attends import DenseAttend
from tests.models.doc_lora_models import (
    AFFIXES,
    FAMILIES,
    config,
    hypernetwork,
    language_model,
    loaded,
)

DOCUMENT = [2, 3, *range(10, 33), 4]


@pytest.fixture(scope="module")
def reader() -> DocToLora:
    return DocToLora(language_model(), loaded())


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_features_are_those_of_the_stock_model_with_its_norm_after_the_last(family: str) -> None:
    model = language_model(family)
    ids = torch.tensor([DOCUMENT])
    stock = model(ids, output_hidden_states=True).hidden_states
    wanted = [*stock[:2], model.get_decoder().norm(stock[2])]
    for heard, hidden in zip(features(model, ids), wanted, strict=True):
        torch.testing.assert_close(heard, hidden, atol=1e-5, rtol=0)


@torch.no_grad()
def test_reading_leaves_nothing_on_the_model() -> None:
    model = language_model()
    before = {name: (type(module), *map(len, hooks(module))) for name, module in model.named_modules()}
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    DocToLora(model, loaded()).internalize_ids(DOCUMENT, 8)
    assert before == {
        name: (type(module), *map(len, hooks(module))) for name, module in model.named_modules()
    }
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


def hooks(module: torch.nn.Module) -> tuple[Any, Any, Any]:
    return module._forward_hooks, module._forward_pre_hooks, module.__dict__


@torch.no_grad()
def test_a_model_that_streams_reads_the_same_through_the_attention_it_is_handed() -> None:
    plain = DocToLora(language_model(), loaded())
    streaming = language_model()
    stream_attention(streaming)
    reader = DocToLora(streaming, loaded())

    def read(chunk: Sequence[int]) -> list[torch.Tensor]:
        """In two pieces, the second of which sees the first."""
        attends = [DenseAttend() for _ in range(3)]
        pieces = [
            features(streaming, torch.tensor([list(piece)]), attends=attends, start=start)
            for piece, start in ((chunk[:3], 0), (chunk[3:], 3))
        ]
        return [torch.cat(layer, 1) for layer in zip(*pieces, strict=True)]

    adapter = reader.internalize_ids(DOCUMENT, 10, read=read)
    wanted = plain.internalize_ids(DOCUMENT, 10)
    torch.testing.assert_close(adapter.change("down_proj"), wanted.change("down_proj"), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("longest", [1, 3, 7, 8, 9, 25, 26, 27])
def test_chunks_hold_the_document_in_equal_parts_and_every_chunk_is_a_whole_turn(longest: int) -> None:
    chunks = split(DOCUMENT, AFFIXES, longest)
    assert len(chunks) == -(-len(DOCUMENT) // longest)
    if len(chunks) == 1:
        assert chunks == [DOCUMENT]
        return
    bare = [
        chunk[2 if number else 0 : len(chunk) - (1 if number < len(chunks) - 1 else 0)]
        for number, chunk in enumerate(chunks)
    ]
    assert [token for part in bare for token in part] == DOCUMENT
    assert len({len(part) for part in bare[:-1]}) == 1 and 0 < len(bare[-1]) <= len(bare[0]) <= longest
    assert all(chunk[:2] == [2, 3] and chunk[-1] == 4 for chunk in chunks[1:-1])


@torch.no_grad()
def test_chunks_are_summed_in_any_order_and_the_learned_block_counts_once(reader: DocToLora) -> None:
    network = reader.network
    latents = torch.randn(3, 3, 1, 2, 8, generator=torch.Generator().manual_seed(1))
    change = network.combine(network.factors(latents)).change("down_proj")
    turned = network.combine(network.factors(latents.flip(0))).change("down_proj")
    torch.testing.assert_close(change, turned, atol=1e-5, rtol=1e-5)
    alone = [network.combine(network.factors(one[None])).change("down_proj") for one in latents]
    learned = 4.0 * network.bias_B["down_proj"].transpose(1, 2) @ network.bias_A["down_proj"]
    torch.testing.assert_close(change, sum(alone) - 2 * learned, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_scalers_weigh_chunks_and_the_bias_acts_squared(reader: DocToLora) -> None:
    learned = reader.internalize_ids(DOCUMENT, 10, scalers=[0, 0, 0]).change("down_proj")
    whole = reader.internalize_ids(DOCUMENT, 10, scalers=[2, 2, 2]).change("down_proj")
    once = reader.internalize_ids(DOCUMENT, 10).change("down_proj")
    torch.testing.assert_close(whole - learned, 2 * (once - learned), atol=1e-4, rtol=1e-4)
    halved = reader.internalize_ids(DOCUMENT, 10, scalers=[0, 0, 0], bias=0.5).change("down_proj")
    torch.testing.assert_close(halved, learned / 4, atol=1e-5, rtol=1e-5)
    with pytest.raises(UsageError, match="2 scalers were given for 3 chunks"):
        reader.internalize_ids(DOCUMENT, 10, scalers=[1, 1])


@torch.no_grad()
def test_stacked_documents_are_the_chunks_of_one(reader: DocToLora) -> None:
    network = reader.network
    latents = torch.randn(2, 3, 1, 2, 8, generator=torch.Generator().manual_seed(1))
    alone = [network.combine(network.factors(one[None])) for one in latents]
    together = network.combine(network.factors(latents))
    torch.testing.assert_close(
        stack(alone).change("down_proj"), together.change("down_proj"), atol=1e-5, rtol=1e-5
    )
    assert stack(alone).rank == 6 and alone[0].rank == 4
    assert stack([together]).change("down_proj").equal(together.change("down_proj"))


@torch.no_grad()
def test_adapters_of_different_networks_are_not_stacked(reader: DocToLora) -> None:
    mine = reader.internalize_ids(DOCUMENT)
    other = DocToLora(reader.model, loaded(seed=1)).internalize_ids(DOCUMENT)
    scaled = reader.internalize_ids(DOCUMENT, bias=0.5)
    for stranger in (other, scaled):
        with pytest.raises(UsageError, match="different hypernetworks"):
            stack([mine, stranger])
    with pytest.raises(UsageError, match="No adapter"):
        stack([])


@torch.no_grad()
def test_a_network_that_was_never_trained_changes_nothing() -> None:
    model = language_model()
    reader = DocToLora(model, loaded_network(HyperNetwork(config())))
    query = torch.tensor([[5, 6, 7]])
    before = model(query).logits
    with applied(model, reader.internalize_ids(DOCUMENT)):
        assert model(query).logits.equal(before)


def loaded_network(network: HyperNetwork) -> Any:
    from streamgen.models.doc_lora_loading import Loaded

    return Loaded(network, None, AFFIXES)


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_a_folder_of_ours_gives_the_same_adapter(tmp_path: Path, bias: bool) -> None:
    network = hypernetwork(bias=bias)
    model = language_model()
    save_doc_lora(tmp_path / "made", network, "some/base", AFFIXES)
    again = load_doc_lora(tmp_path / "made")
    assert again.base == "some/base" and affixes_of(again) == AFFIXES
    assert again.network.config == network.config
    one, other = (
        DocToLora(model, found).internalize_ids(DOCUMENT, 9) for found in (loaded_network(network), again)
    )
    assert one.change("down_proj").equal(other.change("down_proj"))
    assert one.rank == 2 * (3 + bias)


def test_keys_that_do_not_fit_are_named() -> None:
    state = hypernetwork().state_dict()
    lacking = {name: tensor for name, tensor in state.items() if name != "head.weight"}
    with pytest.raises(StreamgenError, match=r"lacks head\.weight"):
        network_from(lacking, head_dim=4)
    with pytest.raises(StreamgenError, match="does not know head.extra"):
        network_from({**state, "head.extra": torch.zeros(1)}, head_dim=4)
    with pytest.raises(StreamgenError, match="No scaler_A"):
        network_from({"head.weight": torch.zeros(1)})


def test_compiled_names_are_understood() -> None:
    state = {f"_orig_mod.{name}": tensor for name, tensor in hypernetwork().state_dict().items()}
    again = network_from(state, alpha=4.0, head_dim=4)
    assert again.config == config()


def test_what_is_not_the_published_architecture_is_refused() -> None:
    with pytest.raises(UsageError, match="use_token_mixing=True"):
        refuse_switches(Path("x.bin"), {"use_token_mixing": True}, {"use_token_mixing": False})
    refuse_switches(Path("x.bin"), {}, {"use_token_mixing": False})  # an older file lacks the switch
    encoder = {
        "ctx_encoder_type": "per_layer_activations",
        "ctx_encoder_model_name_or_path": None,
        "quantize_ctx_encoder": False,
    }
    refuse_other_encoder(Path("x.bin"), encoder, "base")
    for changes in ({"ctx_encoder_type": "early_exit"}, {"ctx_encoder_model_name_or_path": "other"}):
        with pytest.raises(UsageError, match="read by the layers of the base model"):
            refuse_other_encoder(Path("x.bin"), encoder | changes, "base")
    with pytest.warns(StreamgenWarning, match="4-bit"):
        refuse_other_encoder(Path("x.bin"), encoder | {"quantize_ctx_encoder": True}, "base")


def test_paths_that_hold_no_checkpoint_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither"):
        load_doc_lora(tmp_path)
    with pytest.raises(UsageError, match="There is no"):
        load_doc_lora(tmp_path / "x.safetensors")
    save_doc_lora(tmp_path, hypernetwork(), None, AFFIXES)
    (tmp_path / "doc_lora.json").unlink()
    with pytest.raises(UsageError, match="no doc_lora.json"):
        load_doc_lora(tmp_path)
    (tmp_path / "doc_lora.json").write_text('{"alpha": 1}')
    with pytest.raises(UsageError, match="prefix, suffix"):
        load_doc_lora(tmp_path)


def test_another_model_is_refused() -> None:
    with pytest.raises(UsageError, match="3 layers of width 32 and the model has 2 layers"):
        DocToLora(language_model(num_hidden_layers=2), loaded())


def test_affixes_are_known_for_the_published_bases_only() -> None:
    assert published_affixes("google/gemma-2-2b-it").prefix[0] == 2
    with pytest.raises(UsageError, match=r"No affixes are known for ''.*Affixes\(prefix, suffix\)"):
        published_affixes("")


def test_a_text_is_tokenised_between_its_affixes() -> None:
    def tokenizer(text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [ord(letter) for letter in text]}

    assert document_ids(tokenizer, " ab\n", Affixes((1,), (2,))) == [1, 97, 98, 2]
    with pytest.raises(UsageError, match="empty"):
        document_ids(tokenizer, " \n", AFFIXES)
    with pytest.raises(UsageError, match="chunk_tokens=0 cuts no document"):
        split(DOCUMENT, AFFIXES, 0)
