"""A stock language model, read off its config and fed through Attends."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from streamgen.errors import UsageError
from streamgen.models.lm import LanguageModel, load_language_model, stock_windows
from streamgen.models.wan_keys import WeightKeyError
from tests.models import lms
from tests.models.dense_attends import DenseAttend


@pytest.mark.parametrize(
    ("family", "windows"),
    [
        ("llama", (None, None, None)),
        ("mistral", (8, 8, 8)),
        ("qwen2", (None, None, None)),
        ("qwen2_sliding", (None, 8, 8)),
        ("gemma2", (8, None, 8)),
        ("gemma3", (8, None, 8)),
    ],
)
def test_the_windows_of_every_layer_are_read_from_the_config(
    family: str, windows: tuple[int | None, ...]
) -> None:
    assert stock_windows(lms.FAMILIES[family][1]) == windows


@pytest.mark.parametrize("family", lms.FAMILIES)
def test_heads_and_sizes_are_those_of_the_attention_layers(family: str) -> None:
    model = LanguageModel(lms.stock(family))
    attention = model.model.get_decoder().layers[0].self_attn
    assert attention.k_proj.out_features == model.kv_heads * model.head_dim
    assert attention.q_proj.out_features == model.q_heads * model.head_dim
    assert (model.layers, model.vocabulary) == (3, lms.VOCABULARY)


@torch.no_grad()
def test_only_the_last_logits_are_computed_where_only_they_are_wanted() -> None:
    plain, model = lms.pair("qwen3")
    ids = torch.arange(7)[None]
    positions = torch.arange(7)[None]
    whole = model(ids, positions, [DenseAttend() for _ in range(3)])
    one = model(ids, positions, [DenseAttend() for _ in range(3)], last=1)
    torch.testing.assert_close(whole, plain(ids).logits, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(one, whole[:, -1:])


def test_a_folder_loads_and_a_wrong_one_is_refused_by_name(tmp_path: Path) -> None:
    model = load_language_model(lms.saved(tmp_path / "lm"), torch.float32, windows=[4])
    assert model.windows == (4, 4, 4) and not model.model.training
    with pytest.raises(UsageError, match=r"no config\.json"):
        load_language_model(tmp_path, torch.float32)


def test_a_missing_weight_is_named(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = lms.saved(tmp_path / "lm")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(WeightKeyError, match=r"layers\.1\.mlp\.up_proj"):
        load_language_model(folder, torch.float32)


@pytest.mark.parametrize("windows", [[], [8, 8], [0], 8, "8", [2.5], [True], [None, "8", 3]])
def test_windows_that_do_not_fit_the_layers_are_refused(windows: Any) -> None:
    with pytest.raises(UsageError, match="not fit 3 layers"):
        LanguageModel(lms.stock("qwen2"), windows)


def test_layers_of_an_unknown_kind_are_refused() -> None:
    config = lms.stock("qwen2").config
    config.layer_types = ["full_attention", "linear_attention", "full_attention"]
    with pytest.raises(UsageError, match="linear_attention"):
        stock_windows(config)


def test_a_model_of_another_build_is_refused_in_a_sentence() -> None:
    stock = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=32, n_positions=32))
    with pytest.raises(UsageError, match="GPT2LMHeadModel is not built like the models that stream here"):
        LanguageModel(stock)
