"""A piece of text as it comes, and how tokens become characters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamgen.sampling.tree import TokenTree

Finished = Literal["", "stop", "length"]
BROKEN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class TextChunk:
    """What one text gained in one step."""

    prompt: int  # number of the prompt
    sample: int  # number of the sample, or rank of the beam
    tokens: tuple[int, ...]
    text: str  # "" while a character is not complete, or where there is no tokenizer
    finished: Finished = ""  # why nothing follows: a stop token, or max_tokens
    score: float | None = None  # of a beam: summed log probability over its penalised length
    tree: TokenTree | None = None  # what drafts proposed behind the token before these
    accepted: tuple[int, ...] = ()  # nodes of the tree below its root that the model agrees with


class Speller:
    """Spells the tokens of one text; a character that is cut in two waits for its other half."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._tokens: list[int] = []
        self._told = 0  # tokens whose characters are out
        self._before = 0  # where the context of the next characters begins

    def add(self, tokens: Sequence[int], last: bool = False) -> str:
        """The characters that these tokens complete."""
        if self.tokenizer is None:
            return ""
        self._tokens += tokens
        told = self._spell(self._tokens[self._before : self._told])
        now = self._spell(self._tokens[self._before :])
        if len(now) <= len(told) or (now.endswith(BROKEN) and not last):
            return ""
        self._before, self._told = self._told, len(self._tokens)
        return now[len(told) :]

    def _spell(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))
