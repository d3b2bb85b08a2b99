"""The words and the turns: a document, then questions with their answers.

<doc> ada lives in the desert . ben carries a map . <end> <ask> what does ben carry ? <say> map <end>
"""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from streamgen.models.doc_lora_chunks import Affixes

from .facts import vocabulary

SPECIAL = ("<pad>", "<unk>", "<doc>", "<ask>", "<say>", "<end>")
PAD, UNKNOWN, DOC, ASK, SAY, END = range(6)
AFFIXES = Affixes((DOC,), (END,))
LIMIT = 1024  # positions


def tokenizer() -> PreTrainedTokenizerFast:
    known = [*SPECIAL, *vocabulary()]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        additional_special_tokens=["<doc>", "<ask>", "<say>"],
        model_max_length=LIMIT,
        clean_up_tokenization_spaces=False,
    )


class Words:
    """Ids of words, without the overhead of a tokenizer."""

    def __init__(self) -> None:
        self.ids = {word: i for i, word in enumerate((*SPECIAL, *vocabulary()))}

    def __call__(self, text: str) -> list[int]:
        return [self.ids[word] for word in text.split()]

    def __len__(self) -> int:
        return len(self.ids)

    def told(self, text: str) -> list[int]:
        """A document as its turn."""
        return AFFIXES.around(self(text))

    def asked(self, question: str) -> list[int]:
        """A question as its turn, up to where the answer begins."""
        return [ASK, *self(question), SAY]


def prompt(document: str | None, question: str) -> str:
    """What is given to a pipeline: the document if there is one, and the question."""
    told = "" if document is None else f"<doc> {document} <end> "
    return f"{told}<ask> {question} <say>"


def longest(rows: Sequence[Sequence[int]]) -> int:
    return max(map(len, rows))
