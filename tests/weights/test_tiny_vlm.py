"""The bundled `tiny-vlm` answers questions on walks that it never saw, judged by the simulator's truth.

Through the product's own pipeline: frames come in chunks, and the whole stream is remembered.
"""

from functools import cache

import numpy as np
import pytest

from streamgen.cli.checksums import mismatches
from streamgen.models.registry import registry, resolve
from weights.recipes.tiny_vlm.evaluate import LONGER, TRAINED, exam, score, stock, streamed
from weights.recipes.tiny_vlm.questions import WORDINGS

STORIES = 25  # of each trained length; twice as many of the longer


@cache
def _trained() -> dict[str, float]:
    answer = streamed(resolve("tiny-vlm"), "full", None)
    shares = [score(answer, frames, STORIES, seed=1) for frames in TRAINED]
    return {key: float(np.mean([share[key] for share in shares])) for key in shares[0]}


@cache
def _longer() -> dict[str, float]:
    return score(streamed(resolve("tiny-vlm"), "full", None), LONGER, 2 * STORIES, seed=1)


def test_the_files_are_the_registered_ones_and_small() -> None:
    assert mismatches(resolve("tiny-vlm"), registry()["tiny-vlm"].facts["files"]) == []
    size = sum(file.stat().st_size for file in resolve("tiny-vlm").rglob("*") if file.is_file())
    assert size <= 16 * 2**20


def test_nine_of_ten_answers_are_right_at_trained_lengths() -> None:
    assert _trained()["all"] >= 0.9


@pytest.mark.parametrize("kind", WORDINGS)
def test_every_kind_of_question_is_answered(kind: str) -> None:
    assert _trained()[kind] > 0.85


def test_eight_of_ten_answers_are_right_at_one_and_a_half_times_that_length() -> None:
    assert 1.5 * max(TRAINED) == LONGER
    assert _longer()["all"] >= 0.8


def test_stock_transformers_gives_the_same_answers() -> None:
    """The stock model sees the story at once and with a newline after it; the pipeline in chunks."""
    once, chunked = stock(resolve("tiny-vlm")), streamed(resolve("tiny-vlm"), "full", None)
    same = [
        a == b
        for frames, asked in exam(12, 6, seed=3)
        for questions in [[one.question for one in asked]]
        for a, b in zip(once(frames, questions), chunked(frames, questions), strict=True)
    ]
    assert np.mean(same) >= 0.95
