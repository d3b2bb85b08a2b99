"""Python arguments that make no text: each is one sentence, and numpy's numbers count as numbers."""

from typing import Any

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_request import PENALTY, TextSampling
from tests.models import lms
from tests.pipelines.texts import collected, generated, pipe_of

PROMPT = [5, 17, 2]
NAN, INF = float("nan"), float("inf")
WRONG: list[tuple[str, Any]] = [
    *(("max_tokens", wrong) for wrong in (0, 2.5, None, "3", True, np.float64(3), [2.5], ["3"], [None])),
    *(("samples", wrong) for wrong in (2.0, None, "2", True)),
    *(("beams", wrong) for wrong in (2.0, None, "2", 0)),
    *(("temperature", wrong) for wrong in (None, "0.5", -1, NAN, INF, 10**400, True, 1j)),
    *(("top_k", wrong) for wrong in (None, 2.0, NAN, INF, -1, "2", True)),
    *(("top_p", wrong) for wrong in (None, "0.5", NAN, INF, -0.1, 1.1)),
    *(("seed", wrong) for wrong in (None, 1.0, -1, 2**63, "1")),
    *(("length_penalty", wrong) for wrong in (None, "1", NAN, INF, 1000, -1000, 10**400)),
]


@pytest.fixture(scope="module")
def pipe() -> Any:
    with pipe_of() as pipe:
        yield pipe


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_what_cannot_be_had_is_refused_by_name(pipe: TextPipeline, name: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=rf"^{name}=.*; (give|it is) "):
        pipe.stream(PROMPT, **{"beams": 1, name: wrong})


@pytest.mark.parametrize(
    "most", [np.int64(3), torch.tensor(3), [np.int32(3)], np.array([3]), torch.tensor([3])]
)
def test_whole_numbers_of_numpy_and_torch_count(pipe: TextPipeline, most: Any) -> None:
    assert collected(pipe.stream(PROMPT, max_tokens=most)) == collected(pipe.stream(PROMPT, max_tokens=3))
    how = {"temperature": 0.9, "top_k": 5, "top_p": 0.75, "seed": 3, "samples": 2}
    same = {name: np.asarray(value)[()] for name, value in how.items()}
    wanted = collected(pipe.stream(PROMPT, max_tokens=3, **how))
    assert collected(pipe.stream(PROMPT, max_tokens=most, **same)) == wanted


@pytest.mark.parametrize("temperature", [5e-324, 1e-320, 1e-300, 1e-30])
@pytest.mark.parametrize("cut", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_the_coldest_chance_takes_the_likeliest_token(
    pipe: TextPipeline, temperature: float, cut: dict[str, Any]
) -> None:
    written = collected(pipe.stream(PROMPT, max_tokens=5, temperature=temperature, **cut))
    assert written == collected(pipe.stream(PROMPT, max_tokens=5))


def test_the_hottest_chance_takes_all_tokens_alike() -> None:
    chances = TextSampling(temperature=1.7e308).chances(torch.tensor([1.0, -3.0, 80.0, 0.0]))
    torch.testing.assert_close(chances, torch.full((4,), 0.25, dtype=torch.float64))


@pytest.mark.parametrize("penalty", [-10, 0, 10])
def test_beams_are_ranked_as_by_transformers(pipe: TextPipeline, penalty: int) -> None:
    [wanted] = generated(lms.stock("qwen2"), PROMPT, 6, num_beams=3, length_penalty=float(penalty))
    assert collected(pipe.stream(PROMPT, max_tokens=6, beams=3, length_penalty=penalty))[0, 0] == wanted


@pytest.mark.parametrize("penalty", [-PENALTY, PENALTY])
def test_the_last_penalties_still_score_every_beam(pipe: TextPipeline, penalty: float) -> None:
    """In single precision, as in transformers, such scores are infinite."""
    scores = [chunk.score for chunk in pipe.stream(PROMPT, max_tokens=200, beams=3, length_penalty=penalty)]
    assert scores == sorted(scores, reverse=True)
    assert all(-INF < score < 0 for score in scores) and len(set(scores)) == 3


@pytest.mark.parametrize("name", ["tokens", "texts", "chunk", "page_size"])
@pytest.mark.parametrize("wrong", [0, 2.5, None, "3", True])
def test_a_pipeline_without_room_is_refused(pipe: TextPipeline, name: str, wrong: Any) -> None:
    with pytest.raises(
        UsageError, match=f"{name}=.* leaves no room for a text; give a whole number from 1 on"
    ):
        TextPipeline(pipe.model, **{name: wrong})


@pytest.mark.parametrize("wrong", [3, "3", None, [2.5], [None], [0]])
def test_widths_that_grow_no_tree_are_refused(pipe: TextPipeline, wrong: Any) -> None:
    with pytest.raises(UsageError, match="width.* grows no tree; give"):
        TextPipeline(pipe.model, widths=wrong)


@pytest.mark.parametrize("wrong", [(), (2,) * 9, (lms.VOCABULARY + 1,)])
def test_trees_without_nodes_or_with_too_many_are_refused(pipe: TextPipeline, wrong: tuple[int, ...]) -> None:
    with pytest.raises(
        UsageError, match="A tree of widths .* cannot be grown; give 1 to 61 children a depth"
    ):
        TextPipeline(pipe.model, widths=wrong)


def test_what_is_no_streaming_model_is_refused(pipe: TextPipeline) -> None:
    with pytest.raises(UsageError, match="A Qwen2ForCausalLM is no model that streams"):
        TextPipeline(lms.stock("qwen2"))  # type: ignore[arg-type]
    for wrong in (3, "tiny-lm-draft", [None]):
        with pytest.raises(UsageError, match="is no model that streams"):
            TextPipeline(pipe.model, draft=wrong)  # type: ignore[arg-type]


def test_numbers_of_numpy_build_a_pipeline() -> None:
    model = LanguageModel(lms.stock("mistral"), np.array([8, 8, 4]).tolist())
    with TextPipeline(model, tokens=np.int64(64), texts=np.int64(2), chunk=np.int64(4)) as pipe:
        assert (pipe.texts, pipe.chunk, model.windows) == (2, 4, (8, 8, 4))
