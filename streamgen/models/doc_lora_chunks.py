"""How a document is dressed as a chat turn and cut into chunks, as the published code does it.

A document is tokenised once with its prefix and suffix. Too long a one is cut into equal parts, and what a
cut took away is put back, so a chunk may exceed the maximum by the length of the affixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamgen.asked import whole
from streamgen.errors import UsageError


@dataclass(frozen=True)
class Affixes:
    """Tokens before and after a document: the chat turn that it is the content of."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def around(self, ids: Sequence[int]) -> list[int]:
        return [*self.prefix, *ids, *self.suffix]


# Of the published base models: an empty system message, the user's turn, the beginning of the answer.
PUBLISHED = {
    "google/gemma-2-2b-it": Affixes((2, 106, 1645, 110), (107, 108, 106, 2516, 108)),
    "mistralai/Mistral-7B-Instruct-v0.2": Affixes(
        (1, 733, 16289, 28793, 28705, 13, 13), (733, 28748, 16289, 28793)
    ),
    "Qwen/Qwen3-4B-Instruct-2507": Affixes(
        (151644, 8948, 198, 151645, 198, 151644, 872, 198), (151645, 198, 151644, 77091, 198)
    ),
}


def published_affixes(base: str) -> Affixes:
    """The affixes that a published hypernetwork was trained with."""
    if base not in PUBLISHED:
        raise UsageError(
            f"No affixes are known for {base!r}; known are those of {', '.join(PUBLISHED)}. "
            "Give the tokens around a document as Affixes(prefix, suffix)."
        )
    return PUBLISHED[base]


def document_ids(tokenizer: Any, text: str, affixes: Affixes) -> list[int]:
    """A document as its tokens between the affixes."""
    if not isinstance(text, str):
        raise UsageError(
            f"A document is a text, not of type {type(text).__name__}; ids have internalize_ids()."
        )
    ids = tokenizer(text.strip(), add_special_tokens=False)["input_ids"]
    if not ids:
        raise UsageError("The document is empty; give one with at least a word in it.")
    return affixes.around(ids)


def split(ids: Sequence[int], affixes: Affixes, chunk_tokens: int | None) -> list[list[int]]:
    """Equal parts of at most `chunk_tokens` tokens, then the affixes that each of them lacks."""
    if not ids:
        raise UsageError("The document has no tokens; give at least one.")
    if chunk_tokens is None:
        return [list(ids)]
    chunk_tokens = whole("chunk_tokens", chunk_tokens, "cuts no document")
    if len(ids) <= chunk_tokens:
        return [list(ids)]
    count = -(-len(ids) // chunk_tokens)
    size = -(-len(ids) // count)
    parts = [list(ids[start : start + size]) for start in range(0, len(ids), size)]
    last = len(parts) - 1
    return [
        [*(affixes.prefix if number else ()), *part, *(affixes.suffix if number < last else ())]
        for number, part in enumerate(parts)
    ]
