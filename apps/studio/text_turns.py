"""How a document and a question become a prompt: the turns that a model was trained with."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamgen.errors import StreamgenWarning, UsageError

MARKS = ("<doc>", "<end>", "<ask>", "<say>")  # of tiny-lm, whose words stand between blanks
Prompt = str | list[int]


@dataclass(frozen=True)
class Turns:
    """`prompt` of a document ("" for none) and a question; `spelled` is a text as the model knows words."""

    prompt: Callable[[str, str], Prompt]
    spelled: Callable[[str], str] = str.strip


def turns_of(tokenizer: Any) -> Turns:
    """Those that the tokenizer shows: marks of tiny-lm, a chat template, or none at all."""
    if tokenizer is None:
        raise UsageError(
            "This checkpoint has no tokenizer, so it cannot be asked in words; give one with it."
        )
    known = tokenizer.get_vocab()
    if all(mark in known for mark in MARKS):
        return Turns(_marked, lambda text: _apart(text, known))
    if tokenizer.chat_template:
        return Turns(lambda document, question: _chat(tokenizer, document, question))
    return Turns(lambda document, question: f"{document}\n\n{question}\n".lstrip())


def _marked(document: str, question: str) -> str:
    told = f"<doc> {document} <end> " if document else ""
    return f"{told}<ask> {question} <say>"


def _apart(text: str, known: dict[str, int]) -> str:
    """Words and signs between blanks; what the model has no word for is said."""
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    strange = sorted({word for word in words if word not in known})
    if strange:
        warnings.warn(
            f"This model has no word for {', '.join(strange[:12])}; it reads a blank there.",
            StreamgenWarning,
            stacklevel=2,
        )
    return " ".join(words)


def _chat(tokenizer: Any, document: str, question: str) -> list[int]:
    content = f"{document}\n\n{question}" if document else question
    turn = [{"role": "user", "content": content}]
    ids: list[int] = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=True)[
        "input_ids"
    ]
    return ids
