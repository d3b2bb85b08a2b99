"""A model that would not remember a text is refused when it is taken, not told by the text that it writes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    DiffLlamaConfig,
    DiffLlamaForCausalLM,
    DogeConfig,
    DogeForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    NemotronConfig,
    NemotronForCausalLM,
)

from streamgen.errors import UsageError
from streamgen.models.lm import LanguageModel
from tests.models import lms


@pytest.mark.parametrize(
    ("kind", "config", "why"),
    [
        (DiffLlamaForCausalLM, DiffLlamaConfig, "in 3 of its 3 layers, so it would not remember a text"),
        (NemotronForCausalLM, NemotronConfig, "in 3 of its 3 layers, so it would not remember a text"),
        (DogeForCausalLM, DogeConfig, "does not stream. Streaming attention takes neither"),
    ],
)
def test_a_model_whose_attention_goes_another_way_is_refused_by_name(
    kind: Any, config: Any, why: str
) -> None:
    with pytest.raises(UsageError, match=f"{kind.__name__} .*{why}"):
        LanguageModel(kind(config(**lms.SMALL)).eval())


def test_a_model_that_attends_in_some_layers_only_is_refused() -> None:
    class Deaf(nn.Module):
        def forward(self, hidden_states: Tensor, **others: Any) -> tuple[Tensor, None]:
            return hidden_states, None

    model = lms.stock("qwen2")
    model.model.layers[1].self_attn = Deaf()
    with pytest.raises(UsageError, match="Qwen2ForCausalLM does not attend once .* in 1 of its 3 layers"):
        LanguageModel(model)


def test_a_model_with_a_state_besides_its_attention_is_refused() -> None:
    model = lms.stock("qwen2")
    model._is_stateful = True  # as transformers marks Mamba's like
    with pytest.raises(UsageError, match="Qwen2ForCausalLM hands a state from token to token"):
        LanguageModel(model)


def test_a_model_whose_layers_have_heads_of_several_sizes_is_refused() -> None:
    model = lms.stock("qwen2")
    other = lms.stock("qwen2", num_key_value_heads=4).model.layers[1].self_attn
    other.config = model.config
    model.model.layers[1].self_attn = other
    with pytest.raises(UsageError, match=r"remember 2 heads of 8 \(values 8\), 4 heads of 8 .* pages hold 2"):
        LanguageModel(model)


def test_experts_half_precision_and_models_without_weights_are_taken() -> None:
    assert LanguageModel(lms.stock("gemma2").bfloat16()).dtype == torch.bfloat16
    experts = MixtralConfig(**lms.SMALL, num_local_experts=4)
    assert LanguageModel(MixtralForCausalLM(experts).eval()).layers == 3
    with torch.device("meta"):
        assert LanguageModel(lms.FAMILIES["qwen2"][0](lms.FAMILIES["qwen2"][1])).layers == 3


@pytest.mark.parametrize("wrong", ["x", None, nn.Linear(1, 1)])
def test_what_is_no_language_model_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"{type(wrong).__name__} is not built like the models"):
        LanguageModel(wrong)
