"""Prompts as rows."""

import pytest
import torch

from streamgen.errors import UsageError
from streamgen.models.umt5 import TextEncoder, clean
from tests.models import tiny


def encoder(heard: list[list[str]] | None = None) -> TextEncoder:
    hook = None if heard is None else heard.append
    return TextEncoder(tiny.tokenizer(), tiny.text_encoder(), tiny.ROWS, hook)


def test_rows_behind_the_end_are_zero_and_the_others_do_not_depend_on_them() -> None:
    rows = encoder()(["a hero", "a hero walks north"])
    assert rows.shape == (2, tiny.ROWS, tiny.TEXT_DIM)
    assert not rows[0, 3:].any() and not rows[1, 5:].any() and rows[1, :5].any(dim=1).all()
    torch.testing.assert_close(encoder()(["a hero"])[0], rows[0], atol=1e-5, rtol=1e-5)


def test_a_prompt_that_does_not_fit_is_refused_not_cut() -> None:
    with pytest.raises(UsageError, match="has 8 tokens and this checkpoint reads 6; say it in fewer words"):
        encoder()(["a hero walks north through snow night"])


def test_unknown_words_are_named() -> None:
    heard: list[list[str]] = []
    encoder(heard)(["a purple hero walks"])
    encoder(heard)(["a hero"])
    assert heard == [["purple"]]


def test_prompts_are_cleaned_the_way_they_were_in_training() -> None:
    assert clean("  a &amp;quot;hero&amp;quot;\n\t walks ") == 'a "hero" walks'
