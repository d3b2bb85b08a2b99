"""Loading from this machine alone: stock folders, published files, every key accounted for."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from streamgen.errors import UsageError
from streamgen.models.loading import load_text_encoder, load_tokenizer, load_transformer, load_vae
from streamgen.models.published import text_encoder_from, transformer_from, vae_from
from streamgen.models.wan_keys import WeightKeyError, transformer_key
from tests.models import tiny

HEAD_DIM = 12
PARTS = {
    "transformer": (load_transformer, tiny.transformer),
    "vae": (load_vae, tiny.vae),
    "text_encoder": (load_text_encoder, tiny.text_encoder),
}
FILES = {"text_encoder": "model.safetensors"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny.folder(tmp_path / "checkpoint")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_local_folder_loads_without_a_connection(
    folder: Path, part: str, dtype: torch.dtype, no_network: None
) -> None:
    load, make = PARTS[part]
    loaded, expected = load(folder / part, dtype).state_dict(), make().state_dict()
    assert loaded.keys() == expected.keys()
    for name, tensor in loaded.items():
        torch.testing.assert_close(tensor, expected[name].to(tensor.dtype))
    assert dtype in {tensor.dtype for tensor in loaded.values()}
    assert load_tokenizer(folder / "tokenizer")("a hero")["input_ids"] == [3, 4, 1]


def change(path: Path, edit: Any) -> None:
    state = load_file(path)
    edit(state)
    save_file(state, path, metadata={"format": "pt"})


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_an_unknown_and_a_misshapen_key_are_named(folder: Path, part: str) -> None:
    load, _ = PARTS[part]
    path = folder / part / FILES.get(part, "diffusion_pytorch_model.safetensors")
    name = sorted(name for name in load_file(path) if name.endswith("bias") or "layer_norm" in name)[0]
    kept = load_file(path)
    for edit in (
        lambda state: state.pop(name),
        lambda state: state.update({"stranger.weight": torch.ones(2)}),
        lambda state: state.update({name: torch.ones(7)}),
    ):
        change(path, edit)
        with pytest.raises(WeightKeyError) as caught:
            load(folder / part, torch.float32)
        changed = load_file(path)
        wrong = "stranger.weight" if "stranger.weight" in changed else name
        assert wrong in str(caught.value)
        save_file(kept, path, metadata={"format": "pt"})


def official(state: dict[str, Any]) -> dict[str, Any]:
    """The tiny transformer under the official names."""
    modules = {
        "condition_embedder.text_embedder.linear_1": "text_embedding.0",
        "condition_embedder.text_embedder.linear_2": "text_embedding.2",
        "condition_embedder.time_embedder.linear_1": "time_embedding.0",
        "condition_embedder.time_embedder.linear_2": "time_embedding.2",
        "condition_embedder.time_proj": "time_projection.1",
        "attn1.to_out.0": "self_attn.o",
        "attn2.to_out.0": "cross_attn.o",
        "attn1.to_": "self_attn.",
        "attn2.to_": "cross_attn.",
        "attn1.": "self_attn.",
        "attn2.": "cross_attn.",
        "ffn.net.0.proj": "ffn.0",
        "ffn.net.2": "ffn.2",
        "norm2.": "norm3.",
        "proj_out": "head.head",
    }
    renamed = {}
    for name, tensor in state.items():
        new = (
            "head.modulation"
            if name == "scale_shift_table"
            else name.replace("scale_shift_table", "modulation")
        )
        for theirs, ours in modules.items():
            new = new.replace(theirs, ours)
        assert transformer_key(new) == name
        renamed[new] = tensor
    return renamed


def test_an_official_state_dict_becomes_the_stock_model_of_its_size() -> None:
    stock = tiny.transformer(num_layers=3, ffn_dim=40)
    model = transformer_from(official(stock.state_dict()), head_dim=HEAD_DIM)
    assert model.config.num_layers == 3 and model.config.ffn_dim == 40
    assert all(torch.equal(a, b) for a, b in zip(stock.parameters(), model.parameters(), strict=True))
    x, t, text = torch.randn(1, 4, 2, 4, 4), torch.tensor([500.0]), torch.randn(1, 5, tiny.TEXT_DIM)
    assert torch.equal(model(x, t, text).sample, stock(x, t, text).sample)


def test_stock_names_without_a_config_load_too() -> None:
    for build, model in (
        (lambda state: transformer_from(state, HEAD_DIM), tiny.transformer()),
        (text_encoder_from, tiny.text_encoder()),
    ):
        loaded = build(model.state_dict())
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))


def test_a_vae_of_unknown_statistics_is_refused() -> None:
    with pytest.raises(UsageError, match="means and deviations of its own"):
        vae_from(tiny.vae().state_dict())


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda state: state.pop("blocks.1.ffn.2.bias"), r"lacks blocks\.1\.ffn\.net\.2\.bias"),
        (lambda state: state.update({"blocks.0.extra": torch.ones(1)}), r"no part of .*blocks\.0\.extra"),
        (
            lambda state: state.update({"head.head.bias": torch.ones(3)}),
            r"other shapes for proj_out\.bias \[3\]",
        ),
        (lambda state: state.pop("patch_embedding.weight"), r"patch_embedding\.weight is missing"),
    ],
)
def test_a_published_file_with_a_wrong_key_is_refused_by_name(edit: Any, said: str) -> None:
    state = official(tiny.transformer().state_dict())
    edit(state)
    with pytest.raises(WeightKeyError, match=said):
        transformer_from(state, HEAD_DIM)


def test_the_published_base_folder_has_official_names_and_a_config_of_another_class(tmp_path: Path) -> None:
    stock = tiny.transformer(num_attention_heads=1, attention_head_dim=128)
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "WanModel", "dim": 128}))
    save_file(official(stock.state_dict()), tmp_path / "diffusion_pytorch_model.safetensors")
    model = load_transformer(tmp_path, torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(stock.parameters(), model.parameters(), strict=True))


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the folder or the file that holds the AutoencoderKLWan"):
        load_vae(tmp_path / "vae", torch.float32)
    with pytest.raises(UsageError, match="There is no tokenizer"):
        load_tokenizer(tmp_path / "tokenizer")
