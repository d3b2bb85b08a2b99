"""Pickles of every published base as the trainer writes them, and what of them loading refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from streamgen.errors import StreamgenError, StreamgenWarning, UsageError
from streamgen.models.doc_lora import HyperNetwork
from streamgen.models.doc_lora_chunks import published_affixes
from streamgen.models.doc_lora_loading import Loaded, affixes_of, load_doc_lora
from streamgen.models.doc_lora_reader import DocToLora
from tests.golden.d2l_models import FOLDERS, recorded
from tests.models.doc_lora_models import AFFIXES, hypernetwork, language_model
from tests.models.published_doc_lora import AGGREGATOR, ENCODER, SWITCHES, tree_of, write

MISTRAL = "mistralai/Mistral-7B-Instruct-v0.2"
BASES = {
    "gemma2": "google/gemma-2-2b-it",
    "qwen2_two_modules": "Qwen/Qwen2.5-0.5B-Instruct",
    "qwen3": "Qwen/Qwen3-4B-Instruct-2507",
}
ALPHA = 7.5  # no network here has 2 r^1.5 = 7.5
DOCUMENT = [2, 3, *range(10, 33), 4]
OTHER = {
    "use_light_weight_lora": True,
    "per_rank_gen": False,
    "use_per_rank_bias": True,
    "per_layer_processing": False,
    "use_token_mixing": True,
    "extra_modules": ["self_attn"],
}
OTHER_AGGREGATOR = {
    "aggregator_type": "pooler",
    "num_extra_modules": 1,
    "num_self_attn_per_block": 2,
    "shared_weights": True,
    "layer_to_layer_ctx_encoder": False,
}


def small(bias: bool = True) -> HyperNetwork:
    """For a tiny Mistral; the heads of every published Perceiver have 128 numbers."""
    return hypernetwork(bias=bias, head_dim=128, heads=2, kv_heads=1)


def tree_for(network: HyperNetwork, base: str) -> dict[str, Any]:
    sizes = {target.name: (target.inputs, target.outputs) for target in network.config.targets}
    return tree_of(network.state_dict(), base, ALPHA, sizes)


@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@torch.no_grad()
def test_recorded_networks_are_the_same_out_of_a_pickle(folder: Path, prefix: str, tmp_path: Path) -> None:
    run = recorded(folder)
    twin, base = run.loaded.network, BASES[folder.name]
    tree = tree_for(twin, base)
    named = {prefix * isinstance(value, torch.Tensor) + name: value for name, value in tree.items()}
    loaded = load_doc_lora(write(tmp_path / "pytorch_model.bin", named))
    assert loaded.base == base and loaded.network.config == replace(twin.config, alpha=ALPHA)
    state = loaded.network.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in twin.state_dict().items())
    (ids,), longest = run.documents("three")
    told, wanted = (
        DocToLora(run.model, one, run.affixes).internalize_ids(ids, longest) for one in (loaded, run.loaded)
    )
    for target in twin.config.targets:
        change = wanted.change(target.name) * (ALPHA / twin.config.alpha)
        torch.testing.assert_close(told.change(target.name), change, atol=1e-5, rtol=0)


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_a_network_of_a_mistral_is_the_same_out_of_a_pickle(bias: bool, tmp_path: Path) -> None:
    """Where no learned block tells the sizes of a module, the settings of the file do."""
    network, model = small(bias), language_model("mistral")
    write(tmp_path / "pytorch_model.bin", tree_for(network, MISTRAL))
    loaded = load_doc_lora(tmp_path)
    assert loaded.network.config == replace(network.config, alpha=ALPHA)
    assert affixes_of(loaded) == published_affixes(MISTRAL)
    plain = Loaded(network, None, AFFIXES)
    told = DocToLora(model, loaded, AFFIXES).internalize_ids(DOCUMENT, 9).change("down_proj")
    wanted = DocToLora(model, plain).internalize_ids(DOCUMENT, 9).change("down_proj")
    torch.testing.assert_close(told, wanted * (ALPHA / network.config.alpha), atol=1e-5, rtol=0)


@pytest.mark.parametrize("base", [MISTRAL, BASES["gemma2"], BASES["qwen3"]])
def test_a_document_is_read_between_the_tokens_of_the_base_that_the_file_names(
    base: str, tmp_path: Path
) -> None:
    write(tmp_path / "pytorch_model.bin", tree_for(small(), base))
    assert affixes_of(load_doc_lora(tmp_path)) == published_affixes(base)


def changed(tmp_path: Path, part: str = "", **changes: Any) -> Path:
    """The pickle of a tiny network in which some settings are others."""
    tree = tree_for(small(), MISTRAL)
    fields = tree["hypernet_config"]
    parts = {"": fields, "aggregator": fields["aggregator_config"], "encoder": tree["ctx_encoder_args"]}
    parts[part].update(changes)
    return write(tmp_path / "pytorch_model.bin", tree)


@pytest.mark.parametrize("name", OTHER)
def test_a_file_of_another_architecture_is_refused_by_its_switch(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"was trained with {name}="):
        load_doc_lora(changed(tmp_path, **{name: OTHER[name]}))


@pytest.mark.parametrize("name", OTHER_AGGREGATOR)
def test_a_file_of_another_aggregator_is_refused_by_its_switch(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"was trained with {name}="):
        load_doc_lora(changed(tmp_path, "aggregator", **{name: OTHER_AGGREGATOR[name]}))


def test_a_file_that_is_older_than_some_switches_is_read(tmp_path: Path) -> None:
    tree = tree_for(small(), MISTRAL)
    for name in SWITCHES:
        del tree["hypernet_config"][name]
    for name in AGGREGATOR:
        del tree["hypernet_config"]["aggregator_config"][name]
    loaded = load_doc_lora(write(tmp_path / "pytorch_model.bin", tree))
    assert loaded.network.config == replace(small().config, alpha=ALPHA)


@pytest.mark.parametrize("indices", [[0, 1], [0, 2, 1], [1, 2, 3], [0, 1, 2, 3]])
def test_a_file_that_adapts_other_layers_is_refused(indices: list[int], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="adapts layers"):
        load_doc_lora(changed(tmp_path, layer_indices=torch.tensor(indices)))


@pytest.mark.parametrize(
    "changes", [{"ctx_encoder_type": "early_exit"}, {"ctx_encoder_model_name_or_path": "other/model"}]
)
def test_a_file_whose_documents_another_model_reads_is_refused(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"read by the layers of the base model, {MISTRAL}"):
        load_doc_lora(changed(tmp_path, "encoder", **changes))


def test_a_file_that_was_trained_on_a_4_bit_reader_is_read_with_a_warning(tmp_path: Path) -> None:
    assert not ENCODER["quantize_ctx_encoder"]
    with pytest.warns(StreamgenWarning, match="4-bit"):
        load_doc_lora(changed(tmp_path, "encoder", quantize_ctx_encoder=True))


@pytest.mark.parametrize("name", ["base_model_name_or_path", "hypernet_config", "ctx_encoder_args"])
def test_a_file_without_its_settings_is_refused_by_their_name(name: str, tmp_path: Path) -> None:
    tree = tree_for(small(), MISTRAL)
    del tree[name]
    with pytest.raises(StreamgenError, match=f"lacks {name}"):
        load_doc_lora(write(tmp_path / "pytorch_model.bin", tree))


def test_what_is_neither_a_weight_nor_a_setting_is_refused(tmp_path: Path) -> None:
    tree = tree_for(small(), MISTRAL) | {"optimizer": "adam"}
    with pytest.raises(StreamgenError, match="optimizer, which are neither"):
        load_doc_lora(write(tmp_path / "pytorch_model.bin", tree))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("hypernet_config", field)
        for field in ("aggregator_config", "feature_sizes", "lora_config", "layer_indices")
    ]
    + [
        ("ctx_encoder_args", field)
        for field in ENCODER
        if field.startswith(("ctx_encoder_type", "ctx_encoder_m", "q"))
    ],
)
def test_a_pickle_without_a_setting_is_refused_by_its_name(name: str, field: str, tmp_path: Path) -> None:
    tree = tree_for(small(), MISTRAL)
    del tree[name][field]
    torch.save(tree, tmp_path / "pytorch_model.bin")
    with pytest.raises(StreamgenError, match=f"has no {field} in its {name}"):
        load_doc_lora(tmp_path)


@pytest.mark.parametrize("name", ["hypernet_config", "ctx_encoder_args"])
def test_settings_that_are_none_are_refused(name: str, tmp_path: Path) -> None:
    tree = tree_for(small(), MISTRAL)
    tree[name] = "settings"
    torch.save(tree, tmp_path / "pytorch_model.bin")
    with pytest.raises(StreamgenError, match=f"in its {name}"):
        load_doc_lora(tmp_path)
