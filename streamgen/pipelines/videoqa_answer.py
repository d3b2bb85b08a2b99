"""An answer, token by token, on a past that is thrown away afterwards. V words of the vocabulary."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from string import ascii_uppercase

import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.pipelines.videoqa_stream import LayeredStream

UNFINISHED = "\ufffd"  # what a tokenizer writes for the first bytes of a character
_LETTER = re.compile(r"^\s*\(?([A-Z])\)?\.?\s*$")


def answer(
    stream: LayeredStream, ids: Sequence[int], most: int, penalty: float, stops: Collection[int]
) -> Iterator[tuple[int, Tensor]]:
    """Greedy tokens after a question of these ids, each with the raw logits [V] that it was chosen from."""
    hidden = stream.feed(stream.vlm.words(ids))
    said: list[int] = []
    while True:
        logits = stream.vlm.logits(hidden)
        token = int(penalised(logits, said, penalty).argmax())
        if token in stops:
            return
        said.append(token)
        yield token, logits
        if len(said) == most:
            return
        hidden = stream.feed(stream.vlm.words([token]))


def penalised(logits: Tensor, said: Sequence[int], penalty: float) -> Tensor:
    """Logits [V] with words that were said before made less likely."""
    if penalty == 1 or not said:
        return logits
    again = torch.tensor(sorted(set(said)), device=logits.device)
    scores = logits[again]
    changed = logits.clone()
    changed[again] = torch.where(scores < 0, scores * penalty, scores / penalty)
    return changed


def pieces(tokens: Iterable[int], decode: Callable[[list[int]], str]) -> Iterator[str]:
    """Text as it grows; a character that is not complete yet waits."""
    ids: list[int] = []
    shown = ""
    for token in tokens:
        ids.append(token)
        text = decode(ids)
        if not text.endswith(UNFINISHED) and len(text) > len(shown):
            yield text[len(shown) :]
            shown = text
    rest = decode(ids)[len(shown) :]
    if rest:
        yield rest


def listed(options: Sequence[str]) -> str:
    """Options as lines: (A) left, (B) right."""
    if not 2 <= len(options) <= len(ascii_uppercase):
        raise UsageError(f"{len(options)} options are no choice; give 2 to {len(ascii_uppercase)}.")
    return "\n".join(f"({letter}) {text}" for letter, text in zip(ascii_uppercase, options, strict=False))


def meant(text: str, options: Sequence[str]) -> str:
    """The answer in words: a bare letter becomes its option, and letters before options go."""
    match = _LETTER.match(text)
    if match and ascii_uppercase.index(match[1]) < len(options):
        text = options[ascii_uppercase.index(match[1])]
    return re.sub(r"[A-Z]\) ", "", text)
