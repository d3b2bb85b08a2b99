"""Key lists and shapes of the real checkpoints: each fits the stock class that is told from its shapes."""

import gzip
import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from streamgen.models.checkpoint import strip_prefixes
from streamgen.models.lora import adapter_state, add_lora
from streamgen.models.published import text_encoder_from, transformer_from, vae_from
from streamgen.models.wan_keys import transformer_key, umt5_key, vae_keys
from tests.golden.fixtures import ROOT

MANIFESTS = sorted((ROOT / "wan").glob("*.json.gz"))
pytestmark = pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)


def read(path: Any) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return facts


def checkpoint(facts: dict[str, Any], word: str) -> dict[str, Any]:
    [found] = [entry for name, entry in facts["checkpoints"].items() if word in name]
    return found


def state(entry: dict[str, Any]) -> dict[str, Tensor]:
    """Tensors without memory under every key of the list; a template stands for all its layers."""
    shapes = dict(entry.get("keys", {}))
    layers = re.search(r"(\d+)\.\.(\d+)", entry.get("template", ""))
    for template, shape in entry.get("keys_template", {}).items():
        numbers = range(int(layers[1]), int(layers[2]) + 1) if layers and "{i}" in template else [0]
        shapes |= {template.replace("{i}", str(number)): shape for number in numbers}
    assert len(shapes) == entry["n_tensors"]
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def num_parameters(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("word", ["1.3B", "14B"])
def test_wan_transformer_checkpoints_fit_the_stock_class_key_by_key(path: Any, word: str) -> None:
    entry = checkpoint(read(path), word)
    prefix = entry.get("key_prefix_in_pt") or entry["key_prefix"].split()[0]
    published = {prefix + name: tensor for name, tensor in state(entry).items()}
    model = transformer_from(strip_prefixes(published))
    assert num_parameters(model) == entry["n_params"]
    config, told = entry["config"], model.config
    assert told.num_attention_heads * told.attention_head_dim == config["dim"]
    assert (told.num_attention_heads, told.num_layers) == (config["num_heads"], config["num_layers"])
    assert told.ffn_dim == config["ffn_dim"]


def test_wan_vae_checkpoint_fits_the_stock_class_key_by_key(path: Any) -> None:
    entry = checkpoint(read(path), "VAE")
    assert num_parameters(vae_from(state(entry))) == entry["n_params"]


def test_wan_text_encoder_checkpoint_fits_the_stock_class_key_by_key(path: Any) -> None:
    entry = checkpoint(read(path), "t5")
    assert num_parameters(text_encoder_from(state(entry))) == entry["n_params"]


def test_wan_lora_checkpoint_fits_the_transformer_it_was_trained_on(path: Any) -> None:
    facts = read(path)
    entry = checkpoint(facts, "LongLive lora")
    model = transformer_from(state(checkpoint(facts, "1.3B")))
    adapter = adapter_state(strip_prefixes(state(entry)))
    add_lora(model, adapter)
    added = {name: p for name, p in model.named_parameters() if ".lora_" in name}
    assert sum(p.numel() for p in added.values()) == entry["n_params"]
    assert len(added) == entry["n_tensors"]


def test_wan_key_maps_are_those_of_the_libraries_own_conversions(path: Any) -> None:
    mapping = read(path)["mapping"]
    maps = {
        "wan_transformer_official_to_diffusers_WanTransformer3DModel": transformer_key,
        "wan_vae_official_to_diffusers_AutoencoderKLWan": None,
        "umt5_official_to_transformers_UMT5EncoderModel": umt5_key,
    }
    assert maps.keys() == mapping.keys()
    for name, rename in maps.items():
        pairs = mapping[name].get("templates") or mapping[name]["full"]
        rename = rename or vae_keys(pairs)
        for official, stock in pairs.items():
            assert rename(official.replace("{i}", "7")) == stock.replace("{i}", "7")
