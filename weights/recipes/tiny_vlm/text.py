"""The words: a word-level tokenizer, and how a stream and a question are put to the model.

The layout is that of streaming LLaVA-OneVision: the system prompt, the frames, then the question.
"""

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from .questions import vocabulary

SYSTEM = "<|im_start|>system \nYou are a helpful assistant.<|im_end|><|im_start|>user "
ASK = "\n{}<|im_end|><|im_start|>assistant\n"
LOCAL = (
    "Describe the current scene in detail, focusing on specific objects, fine-grained actions, and spatial "
    "relationships."
)
GLOBAL = (
    "Summarize the video narrative, identifying main characters, key events, timeline changes, and the "
    "overall theme."
)
HISTORY = ("Find recent details related to:", "Context summary:", "Question: Answer:")
SPECIAL = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>", "<image>", "<video>"]
PAD, END, IMAGE, VIDEO = 0, 3, 4, 5
CHAT = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system \nYou are a helpful assistant.<|im_end|>"
    "{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }} "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}<image>{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'video') %}<video>{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}\n{{ part['text'] }}"
    "{% endfor %}"
    "{% endif %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def words(text: str) -> list[str]:
    """Words and marks of a text, without the special tokens."""
    splitter = pre_tokenizers.Whitespace()
    return [word for word, _ in splitter.pre_tokenize_str(text.lower())]


def guidance() -> list[str]:
    """Words that only the memory's guidance texts use."""
    known = {w for text in (*vocabulary(), "system You are a helpful assistant. user") for w in words(text)}
    return sorted({w for text in (LOCAL, GLOBAL) for w in words(text)} - known)


def tokenizer() -> PreTrainedTokenizerFast:
    texts = (*vocabulary(), "system You are a helpful assistant. user", LOCAL, GLOBAL, *HISTORY, ";")
    known = [*SPECIAL, *sorted({w for text in texts for w in words(text)})]
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(known)}, unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>", "<image>", "<video>"],
        chat_template=CHAT,
        model_max_length=4096,
    )
