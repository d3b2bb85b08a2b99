"""Grouped-query conversion against what it must be: means of consecutive heads, read as stock code does.

Shapes: H key heads before, G after, d head dim.
"""

from typing import Any

import pytest
import torch
from einops import rearrange, repeat
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Olmo2Config,
    Olmo2ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
)

from streamgen.errors import UsageError
from streamgen.models.gqa import POOLED, pool_heads, to_grouped_query
from tests.models.doc_lora_models import FAMILIES, SIZES, language_model
from tests.models.tiny_vlms import MAKERS

IDS = torch.tensor([[5, 9, 2, 33, 41, 7, 19, 28, 3, 11]])
MODELS = [*FAMILIES, "olmo2"]


def model_of(family: str) -> Any:
    """Four key heads of eight dimensions; biases and norms are random too."""
    if family != "olmo2":
        return language_model(family)
    model = Olmo2ForCausalLM(Olmo2Config(**{k: v for k, v in SIZES.items() if k != "head_dim"})).eval()
    generator = torch.Generator().manual_seed(0)
    for weight in model.requires_grad_(False).parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + (weight.ndim == 1))
    return model


def pooled_keys(model: Any) -> list[str]:
    return [
        name for name in model.state_dict() if name.endswith(POOLED) and model.state_dict()[name].shape[0] > 8
    ]


@pytest.mark.parametrize("family", MODELS)
@torch.no_grad()
def test_as_many_heads_as_before_is_the_same_to_the_bit(family: str) -> None:
    model = model_of(family)
    same = to_grouped_query(model, 4)
    assert all(torch.equal(tensor, same.state_dict()[name]) for name, tensor in model.state_dict().items())
    assert same(IDS).logits.equal(model(IDS).logits)


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("groups", [1, 2])
@torch.no_grad()
def test_a_converted_model_is_the_first_with_every_head_replaced_by_the_mean_of_its_group(
    family: str, groups: int
) -> None:
    model = model_of(family)
    converted = to_grouped_query(model, groups)
    assert converted.config.num_key_value_heads == groups and model.config.num_key_value_heads == 4
    for name in pooled_keys(model):  # the oracle: four heads that stock code has no reason to group
        weight = model.get_parameter(name)
        heads = rearrange(weight, "(g m d) ... -> g m d ...", g=groups, d=8)
        mean = heads.double().mean(1).to(weight.dtype)
        weight.copy_(
            rearrange(repeat(mean, "g d ... -> g m d ...", m=4 // groups), "g m d ... -> (g m d) ...")
        )
    torch.testing.assert_close(converted(IDS).logits, model(IDS).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", MODELS)
@torch.no_grad()
def test_what_a_converted_model_caches_is_smaller_by_the_size_of_the_groups(family: str) -> None:
    whole, halved = model_of(family), to_grouped_query(model_of(family), 2)
    sizes = [
        sum(
            layer.keys.nbytes + layer.values.nbytes
            for layer in model(IDS, use_cache=True).past_key_values.layers
        )
        for model in (whole, halved)
    ]
    assert sizes[0] == 2 * sizes[1] > 0


@pytest.mark.parametrize("family", MODELS)
@torch.no_grad()
def test_converting_twice_equals_converting_once(family: str) -> None:
    model = model_of(family)
    once = to_grouped_query(model, 1)
    twice = to_grouped_query(to_grouped_query(model, 2), 1)
    for name, tensor in once.state_dict().items():
        torch.testing.assert_close(tensor, twice.state_dict()[name], atol=1e-7, rtol=2**-22)


@torch.no_grad()
def test_equal_heads_lose_nothing() -> None:
    model = model_of("qwen2")
    for name in pooled_keys(model):
        weight = model.get_parameter(name)
        weight.copy_(weight[:8].repeat(4, *[1] * (weight.ndim - 1)))
    torch.testing.assert_close(
        to_grouped_query(model, 1)(IDS).logits, model(IDS).logits, atol=1e-5, rtol=1e-5
    )


@torch.no_grad()
def test_the_mean_is_the_projection_nearest_to_all_heads_of_a_group() -> None:
    heads = torch.randn(4, 8, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pooled = pool_heads(heads.flatten(0, 1), 8, 4, 2).view(2, 8, 16)
    for group in range(2):
        members = heads[2 * group : 2 * group + 2].flatten(1)
        nearest = torch.linalg.lstsq(torch.ones(2, 1, dtype=torch.float64), members).solution
        torch.testing.assert_close(pooled[group].flatten()[None], nearest)


@torch.no_grad()
def test_the_given_model_stays_as_it_was_and_shares_what_did_not_change() -> None:
    model = model_of("qwen3")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    converted = to_grouped_query(model, 2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    shared = "model.layers.0.mlp.up_proj.weight"
    assert converted.get_parameter(shared).data_ptr() == model.get_parameter(shared).data_ptr()


@torch.no_grad()
def test_tied_words_stay_tied_and_the_type_stays() -> None:
    model = language_model("gemma2").bfloat16()
    converted = to_grouped_query(model, 2)
    assert converted.lm_head.weight is converted.get_input_embeddings().weight
    assert {weight.dtype for weight in converted.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("groups", [0, -1, 3, 8])
def test_groups_that_do_not_divide_the_heads_are_refused_with_those_that_do(groups: int) -> None:
    with pytest.raises(
        UsageError, match=rf"4 key heads cannot be pooled into {groups}; choose one of 1, 2, 4"
    ):
        to_grouped_query(language_model(), groups)


def test_models_without_projections_of_their_own_are_refused() -> None:
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2))
    with pytest.raises(UsageError, match="says nothing of key heads"):
        to_grouped_query(gpt, 1)
    phi = Phi3ForCausalLM(Phi3Config(**{**SIZES, "head_dim": 8}))
    with pytest.raises(UsageError, match="fused projections"):
        to_grouped_query(phi, 1)


@pytest.mark.parametrize("family", MAKERS)
@torch.no_grad()
def test_the_language_model_of_a_vision_model_is_converted_and_its_eyes_are_not(family: str) -> None:
    model = MAKERS[family]().eval()
    converted = to_grouped_query(model, 1)
    assert (
        converted.config.text_config.num_key_value_heads,
        model.config.text_config.num_key_value_heads,
    ) == (1, 2)
    heads = [m.get_decoder().layers[0].self_attn.k_proj.weight.shape[0] for m in (model, converted)]
    assert heads[0] == 2 * heads[1]
    eyes = {name: tensor for name, tensor in model.state_dict().items() if "visi" in name or "visual" in name}
    assert eyes and all(torch.equal(tensor, converted.state_dict()[name]) for name, tensor in eyes.items())
    assert converted(IDS).logits.isfinite().all()
    assert to_grouped_query(model, 2)(IDS).logits.equal(model(IDS).logits)


def test_quantised_weights_are_refused() -> None:
    model = language_model()
    attention = model.model.layers[0].self_attn
    attention.k_proj.weight = torch.nn.Parameter(attention.k_proj.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(UsageError, match="before it is quantised"):
        to_grouped_query(model, 1)
