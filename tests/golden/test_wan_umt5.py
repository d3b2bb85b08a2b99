"""The public UMT5 encoder through the stock class."""

from pathlib import Path

import pytest

from streamgen.models.umt5 import TextEncoder
from tests.golden.fixtures import golden, named, of_kind
from tests.golden.wan_models import text_encoder


@pytest.mark.parametrize("path", of_kind("wan", "umt5_encoder"), ids=named)
def test_wan_text_rows_match_the_public_encoder_and_end_in_zeros(path: Path) -> None:
    recorded = golden(path)
    ids, mask = recorded.tensors["in/ids"], recorded.tensors["in/mask"]
    encoder = TextEncoder(tokenizer=None, encoder=text_encoder(recorded), rows=ids.shape[1])
    rows = encoder.embed(ids, mask)
    recorded.assert_close(rows, "out/prompt_embeds")
    assert not rows[mask == 0].any()
