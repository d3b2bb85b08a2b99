"""LoRA files of published Wans on the stock transformer."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from streamgen.models.lora import load_lora
from streamgen.models.wan_keys import WeightKeyError
from tests.models import tiny

RANK = 2
OFFICIAL = {
    "self_attn.q": "attn1.to_q",
    "cross_attn.o": "attn2.to_out.0",
    "ffn.0": "ffn.net.0.proj",
    "ffn.2": "ffn.net.2",
}


def matrices(names: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """A and B for every layer of some modules of the tiny transformer."""
    model, pairs = tiny.transformer(), {}
    for layer in range(2):
        for name, stock in names.items():
            rows, columns = model.get_submodule(f"blocks.{layer}.{stock}").weight.shape
            pairs[f"blocks.{layer}.{name}"] = (torch.randn(RANK, columns), torch.randn(rows, RANK))
    return pairs


def peft_state(pairs: dict[str, tuple[Tensor, Tensor]], infix: str = "") -> dict[str, Tensor]:
    state = {}
    for name, (a, b) in pairs.items():
        state[f"base_model.model.{name}.lora_A{infix}.weight"] = a
        state[f"base_model.model.{name}.lora_B{infix}.weight"] = b
    return state


def effective(transformer: Any, module: str) -> Tensor:
    """The weight that the module acts with."""
    layer = transformer.get_submodule(module)
    return layer.base_layer.weight + layer.get_delta_weight("default")


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("infix", ["", ".default"])
def test_an_official_lora_lands_on_the_stock_modules(tmp_path: Path, nested: bool, infix: str) -> None:
    pairs = matrices(OFFICIAL)
    state = peft_state(pairs, infix)
    torch.save({"generator_lora": state} if nested else state, tmp_path / "lora.pt")
    model, plain = tiny.transformer(), tiny.transformer()
    load_lora(model, tmp_path / "lora.pt")
    for name, (a, b) in pairs.items():
        layer, official = name.split(".")[1], name.split(".", 2)[2]
        module = f"blocks.{layer}.{OFFICIAL[official]}"
        expected = plain.get_submodule(module).weight + b @ a
        torch.testing.assert_close(effective(model, module), expected, atol=1e-5, rtol=1e-5)


def test_alpha_scales_the_adapter(tmp_path: Path) -> None:
    pairs = matrices({"attn1.to_v": "attn1.to_v"})
    torch.save(peft_state(pairs), tmp_path / "lora.pt")
    model, plain = tiny.transformer(), tiny.transformer()
    load_lora(model, tmp_path / "lora.pt", alpha=RANK / 4)
    a, b = pairs["blocks.1.attn1.to_v"]
    expected = plain.blocks[1].attn1.to_v.weight + b @ a / 4
    torch.testing.assert_close(effective(model, "blocks.1.attn1.to_v"), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda s: s.pop("base_model.model.blocks.0.self_attn.q.lora_B.weight"),
            r"lacks blocks\.0\.attn1\.to_q\.lora_B",
        ),
        (
            lambda s: s.update({"base_model.model.blocks.9.self_attn.q.lora_A.weight": torch.ones(2, 24)}),
            r"does not know blocks\.9\.attn1\.to_q\.lora_A",
        ),
        (
            lambda s: s.update({"base_model.model.blocks.0.self_attn.q.lora_A.weight": torch.ones(2, 5)}),
            r"other shapes for blocks\.0\.attn1\.to_q \[24, 5\] instead of \[24, 24\]",
        ),
        (
            lambda s: s.update({"base_model.model.tail.lora_A.weight": torch.ones(1)}),
            r"no part of a LoRA .*tail",
        ),
    ],
)
def test_a_lora_key_that_does_not_fit_is_named(tmp_path: Path, edit: Any, said: str) -> None:
    state = peft_state(matrices(OFFICIAL))
    edit(state)
    torch.save(state, tmp_path / "lora.pt")
    with pytest.raises(WeightKeyError, match=said):
        load_lora(tiny.transformer(), tmp_path / "lora.pt")
