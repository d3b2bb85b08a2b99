"""What transformers writes, and how a stream is collected."""

from collections.abc import Sequence
from typing import Any

import torch

from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_chunk import TextChunk
from tests.models import lms

RAGGED = (
    (5, 17, 2, 33, 8, 41, 9),
    (11,),
    (3, 50, 20, 7, 7, 60, 31, 2, 19, 44, 12, 6, 28, 1, 30, 55, 4, 10, 22, 39, 16, 25, 58, 14, 0, 47),
    (21, 6, 13),
)


def pipe_of(family: str = "qwen2", seed: int = 0, **options: Any) -> TextPipeline:
    """A pipeline over a tiny random model, with little room."""
    given = {"tokens": 1024, "texts": 16, "chunk": 8, "page_size": 4, "attention": "sdpa"} | options
    return TextPipeline(LanguageModel(lms.stock(family, seed)), **given)


def draft_of(family: str = "qwen2", seed: int = 9) -> LanguageModel:
    """A draft model: a stranger, or with the family and seed of the pipeline its equal."""
    return LanguageModel(lms.stock(family, seed))


def collected(chunks: Any) -> dict[tuple[int, int], list[int]]:
    """The tokens of every text by (prompt, sample)."""
    texts: dict[tuple[int, int], list[int]] = {}
    for chunk in chunks:
        assert isinstance(chunk, TextChunk)
        texts.setdefault((chunk.prompt, chunk.sample), []).extend(chunk.tokens)
    return texts


def generated(model: Any, prompt: Sequence[int], tokens: int, **options: Any) -> list[list[int]]:
    """What transformers' own generate writes after a prompt, alone and with eager attention."""
    ids = torch.tensor([list(prompt)])
    everything = torch.ones_like(ids)  # or generate takes token 0 for padding
    options = {"attention_mask": everything, "pad_token_id": 0, "do_sample": False} | options
    out = model.generate(ids, max_new_tokens=tokens, **options)
    return [row[len(prompt) :].tolist() for row in out]
