"""Prompts as rows of numbers: a stock `UMT5EncoderModel` used the way Wan was trained.

Shapes: B prompts, N text rows, D text dim.
Rows behind the end of a prompt are exact zeros and no mask goes with them: the video model attends to them.
"""

import html
import re
from collections.abc import Callable, Sequence
from typing import Any

import ftfy
import torch
from torch import Tensor

from streamgen.errors import UsageError


class TextEncoder:
    """Turns prompts into [B, N, D]; `on_unknown` hears the words that the vocabulary does not hold."""

    def __init__(
        self,
        tokenizer: Any,
        encoder: Any,
        rows: int,
        on_unknown: Callable[[list[str]], None] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.encoder = encoder
        self.rows = rows
        self.on_unknown = on_unknown

    def __call__(self, prompts: Sequence[str]) -> Tensor:
        """Text rows [B, N, D]."""
        ids = torch.full((len(prompts), self.rows), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            tokens = self.tokens(prompt)
            self._tell_unknown(prompt, tokens)
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        return self.embed(ids, mask)

    @torch.no_grad()
    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token ids and mask, both [B, N], -> text rows [B, N, D]."""
        device = self.encoder.shared.weight.device
        ids, mask = ids.to(device), mask.to(device)
        rows: Tensor = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return rows.masked_fill(mask[..., None] == 0, 0.0)

    def tokens(self, prompt: str) -> list[int]:
        """The token ids of a prompt; one that does not fit is refused, never cut."""
        tokens: list[int] = self.tokenizer(clean(prompt), truncation=False)["input_ids"]
        if len(tokens) > self.rows:
            raise UsageError(
                f"The prompt '{prompt[:40]}...' has {len(tokens)} tokens and this checkpoint reads "
                f"{self.rows}; say it in fewer words."
            )
        return tokens

    def _tell_unknown(self, prompt: str, tokens: list[int]) -> None:
        if self.on_unknown is not None and self.tokenizer.unk_token_id in tokens:
            self.on_unknown([word for word in clean(prompt).split() if self._is_unknown(word)])

    def _is_unknown(self, word: str) -> bool:
        return self.tokenizer.unk_token_id in self.tokenizer(word, add_special_tokens=False)["input_ids"]


def clean(prompt: str) -> str:
    """The prompt with broken characters mended, HTML entities resolved and white space made single spaces."""
    mended = html.unescape(html.unescape(ftfy.fix_text(prompt)))
    return re.sub(r"\s+", " ", mended).strip()
