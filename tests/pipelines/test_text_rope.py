"""Rotary frequencies that hang on the length of a whole pass change no text."""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM

from streamgen.errors import UsageError
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from tests.models import lms
from tests.pipelines.texts import collected, generated

SHORT = 24
PROMPTS = ([5, 6, 7], list(range(4, 20)))
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "original_max_position_embeddings": SHORT,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}


def stock(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "longrope":
        config = Phi3Config(**lms.SMALL, original_max_position_embeddings=SHORT, rope_parameters=LONGROPE)
        return Phi3ForCausalLM(config).eval()
    config = LlamaConfig(**{**lms.SMALL, "max_position_embeddings": SHORT}, rope_parameters=DYNAMIC)
    return LlamaForCausalLM(config).eval()


def pipe_of(kind: str, **options: Any) -> TextPipeline:
    return TextPipeline(LanguageModel(stock(kind)), **{"tokens": 512, "texts": 4, "page_size": 4} | options)


@pytest.mark.parametrize("kind", ["longrope", "dynamic"])
@pytest.mark.parametrize("drafted", [False, True])
def test_a_text_up_to_the_last_place_is_the_same_alone_among_others_and_by_generate(
    kind: str, drafted: bool
) -> None:
    """Guesses behind the last place are turned as the last one, so the text before them is not touched."""
    options: dict[str, Any] = {}
    if drafted:
        options = {"draft": LanguageModel(stock(kind)), "widths": (2, 1, 1, 1)}
    lengths = [SHORT - len(prompt) for prompt in PROMPTS]
    with pipe_of(kind, **options) as pipe:
        together = collected(pipe.stream(PROMPTS, max_tokens=lengths))
        alone = [collected(pipe.stream(p, max_tokens=n))[0, 0] for p, n in zip(PROMPTS, lengths, strict=True)]
    wanted = [generated(stock(kind), p, n)[0] for p, n in zip(PROMPTS, lengths, strict=True)]
    assert [together[0, 0], together[1, 0]] == alone == wanted


@pytest.mark.parametrize(
    ("kind", "why"), [("longrope", "its rope_type 'longrope'"), ("dynamic", "'dynamic'")]
)
def test_a_text_that_would_change_the_frequencies_is_refused(kind: str, why: str) -> None:
    with pipe_of(kind) as pipe:
        assert pipe.model.longest == SHORT
        with pytest.raises(UsageError, match=f"more than the {SHORT} up to which .*{why}"):
            pipe.requests(PROMPTS[0], max_tokens=SHORT)


def test_frequencies_that_nobody_knows_are_refused_at_once() -> None:
    model = lms.stock("llama")
    model.config.rope_parameters = {"rope_type": "moody", "rope_theta": 10000.0}
    with pytest.raises(UsageError, match="LlamaForCausalLM turns its keys with rope_type 'moody'"):
        LanguageModel(model)


def test_kinds_of_layers_may_have_frequencies_of_their_own() -> None:
    assert LanguageModel(lms.stock("gemma3")).longest == lms.SMALL["max_position_embeddings"]
