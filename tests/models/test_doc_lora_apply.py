"""Adapters go on a model and come off, and leave nothing behind."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from streamgen.errors import UsageError
from streamgen.models.doc_lora import Target
from streamgen.models.doc_lora_adapter import Adapter, stack
from streamgen.models.doc_lora_apply import applied, merged, save_peft
from streamgen.models.doc_lora_reader import DocToLora
from tests.models.doc_lora_models import FAMILIES, language_model, loaded

QUERY = torch.tensor([[5, 6, 7, 8]])
TWO = (Target("down_proj", 40, 32), Target("q_proj", 32, 32))


def adapter(seed: int = 0, chunks: int = 1, targets: tuple[Target, ...] = TWO, layers: int = 3) -> Adapter:
    """Random factors strong enough to be seen in the logits."""
    generator = torch.Generator().manual_seed(seed)

    def pair(target: Target, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.randn(layers, rank, target.inputs, generator=generator) * 0.2
        return a, torch.randn(layers, rank, target.outputs, generator=generator) * 0.2

    told = {target.name: pair(target, 2 * chunks) for target in targets}
    generator.manual_seed(99)
    return Adapter(told, {target.name: pair(target, 2) for target in targets}, 2.0)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_applied_and_merged_answer_as_changed_weights_do_and_leave_no_trace(family: str) -> None:
    model, oracle, made = language_model(family), language_model(family), adapter()
    for layer, block in enumerate(oracle.get_decoder().layers):
        block.mlp.down_proj.weight += made.change("down_proj")[layer]
        block.self_attn.q_proj.weight += made.change("q_proj")[layer]
    wanted, before = oracle(QUERY).logits, model(QUERY).logits
    modules = {name: id(module) for name, module in model.named_modules()}
    weights = {name: (weight.data_ptr(), weight.clone()) for name, weight in model.named_parameters()}
    assert (wanted - before).abs().max() > 0.1
    for way in (applied, merged):
        with way(model, made):
            torch.testing.assert_close(model(QUERY).logits, wanted, atol=1e-4, rtol=0)
        assert model(QUERY).logits.equal(before)
        assert {name: id(module) for name, module in model.named_modules()} == modules
    for name, weight in model.named_parameters():
        assert weight.data_ptr() == weights[name][0] and weight.equal(weights[name][1])


@torch.no_grad()
def test_an_adapter_leaves_after_a_failure_too() -> None:
    model = language_model()
    before = model(QUERY).logits
    for way in (applied, merged):
        with pytest.raises(KeyError), way(model, adapter()):
            raise KeyError("something else")
        assert model(QUERY).logits.equal(before)


@torch.no_grad()
def test_every_row_of_a_batch_has_its_own_adapter() -> None:
    model = language_model()
    made = [adapter(1), adapter(2, chunks=3), adapter(3, chunks=2)]
    rows = torch.tensor([[5, 6, 7], [8, 9, 10], [11, 12, 13]])
    alone = []
    for one, row in zip(made, rows, strict=True):
        with applied(model, one):
            alone.append(model(row[None]).logits)
    with applied(model, made):
        torch.testing.assert_close(model(rows).logits, torch.cat(alone), atol=1e-4, rtol=0)
        with pytest.raises(UsageError, match="3 adapters are applied, one for each row"):
            model(rows[:2])


@torch.no_grad()
def test_one_inside_another_adds_up_and_is_a_stack_but_for_the_learned_block() -> None:
    model, one, other = language_model(), adapter(1), adapter(2)
    bare = Adapter(other.told, {}, other.alpha)
    with applied(model, stack([one, other])):
        wanted = model(QUERY).logits
    with applied(model, one), applied(model, bare):
        torch.testing.assert_close(model(QUERY).logits, wanted, atol=1e-4, rtol=0)
    with merged(model, one), applied(model, bare):
        torch.testing.assert_close(model(QUERY).logits, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("way", [applied, merged])
@torch.no_grad()
def test_adapters_leave_in_any_order(way: Any) -> None:
    model, other = language_model(), adapter(2)
    modules = {name: id(module) for name, module in model.named_modules()}
    with applied(model, other):
        wanted = model(QUERY).logits
    first, second, third = way(model, adapter(1)), applied(model, other), applied(model, adapter(3))
    for one in (first, second, third):
        one.__enter__()
    first.__exit__(None, None, None)
    third.__exit__(None, None, None)
    assert model(QUERY).logits.equal(wanted)
    second.__exit__(None, None, None)
    assert {name: id(module) for name, module in model.named_modules()} == modules


def test_a_second_adapter_is_not_merged_over_the_first() -> None:
    model = language_model()
    with (
        merged(model, adapter(1)),
        pytest.raises(UsageError, match=r"merge a stack\(\)"),
        merged(model, adapter(2)),
    ):
        pass


@torch.no_grad()
def test_no_document_is_read_through_an_adapter() -> None:
    model = language_model()
    reader = DocToLora(model, loaded())
    for way in (applied, merged):
        with way(model, adapter()), pytest.raises(UsageError, match="leave its with-block"):
            reader.internalize_ids([2, 3, 10, 4])
    reader.internalize_ids([2, 3, 10, 4])


@torch.no_grad()
def test_in_bfloat16_the_change_is_computed_in_float32() -> None:
    layer = nn.Linear(40, 32, dtype=torch.bfloat16)
    made = adapter(targets=TWO[:1])
    model = language_model()
    model.get_decoder().layers[0].mlp.down_proj = layer
    x = torch.randn(1, 5, 40, generator=torch.Generator().manual_seed(0)).bfloat16()
    with applied(model, made):
        out = model.get_decoder().layers[0].mlp.down_proj(x)
    wanted = layer(x).float() + x.float() @ made.change("down_proj")[0].T
    torch.testing.assert_close(out, wanted.bfloat16(), atol=0, rtol=2**-7)
    assert out.dtype == torch.bfloat16


@torch.no_grad()
def test_weights_that_are_no_floats_are_adapted_but_not_merged() -> None:
    class Packed(nn.Module):
        """Stands for a quantised layer."""

        def __init__(self, linear: nn.Linear) -> None:
            super().__init__()
            self.linear = linear
            self.in_features, self.out_features = linear.in_features, linear.out_features

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x)

    model, made = language_model(), adapter(targets=TWO[:1])
    with applied(model, made):
        wanted = model(QUERY).logits
    for layer in model.get_decoder().layers:
        layer.mlp.down_proj = Packed(layer.mlp.down_proj)
    with applied(model, made):
        assert model(QUERY).logits.equal(wanted)
    with pytest.raises(UsageError, match=r"layers\.0\.mlp\.down_proj is a Packed"), merged(model, made):
        pass
    assert isinstance(model.get_decoder().layers[0].mlp.down_proj, Packed)


def test_adapters_that_do_not_fit_are_refused_before_anything_changes() -> None:
    model = language_model()
    modules = {name: id(module) for name, module in model.named_modules()}
    misfits = [
        (adapter(layers=2), "for 2 layers and the model has 3"),
        (adapter(targets=(Target("down_proj", 41, 32),)), "41 inputs and 32 outputs"),
        (adapter(targets=(Target("other_proj", 40, 32),)), "0 modules named other_proj"),
    ]
    for made, sentence in misfits:
        for way in (applied, merged):
            with pytest.raises(UsageError, match=sentence), way(model, made):
                pass
    with (
        pytest.raises(UsageError, match="cannot share a batch"),
        applied(model, [adapter(), adapter(targets=TWO[:1])]),
    ):
        pass
    with pytest.raises(UsageError, match="No adapter"), applied(model, []):
        pass
    assert {name: id(module) for name, module in model.named_modules()} == modules


@torch.no_grad()
def test_a_peft_folder_gives_the_same_answers(tmp_path: Path) -> None:
    from peft import PeftModel

    model, made = language_model(), adapter(chunks=2)
    save_peft(model, made, tmp_path / "adapter")
    with applied(model, made):
        wanted = model(QUERY).logits
    theirs = PeftModel.from_pretrained(model, str(tmp_path / "adapter"))
    torch.testing.assert_close(theirs(QUERY).logits, wanted, atol=1e-4, rtol=0)


def test_the_bytes_of_an_adapter_are_those_of_its_matrices() -> None:
    made = adapter(chunks=3)
    rows = (2 * 3 + 2) * 3 * 4
    assert made.nbytes == rows * (40 + 32) + rows * (32 + 32)
