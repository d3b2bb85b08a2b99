"""Tokens become characters, and no half of one is ever shown."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgen.pipelines.text_chunk import BROKEN, Speller


class Bytes:
    """A tokenizer whose tokens are the bytes of UTF-8."""

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return bytes(tokens).decode("utf-8", errors="replace")


@given(st.text(max_size=20), st.lists(st.integers(1, 4), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_the_pieces_make_the_text_and_none_has_half_a_character(text: str, sizes: list[int]) -> None:
    text = text.replace(BROKEN, "")
    tokens, speller, pieces = list(text.encode()), Speller(Bytes()), []
    start = 0
    while start < len(tokens):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(speller.add(tokens[start : start + size], last=start + size >= len(tokens)))
        start += size
    assert "".join(pieces) == text and not any(BROKEN in piece for piece in pieces)


def test_what_stays_broken_at_the_end_is_shown_as_broken() -> None:
    speller = Speller(Bytes())
    assert speller.add(list("é".encode())[:1]) == ""
    assert speller.add([], last=True) == BROKEN


@pytest.mark.parametrize("tokens", [[1], [1, 2, 3]])
def test_without_a_tokenizer_there_are_no_characters(tokens: list[int]) -> None:
    assert Speller(None).add(tokens, last=True) == ""
