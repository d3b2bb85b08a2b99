"""The language model of a studio with what lies beside it: a draft model, and a hypernetwork for documents.

A checkpoint `NAME` brings a draft as `NAME-draft` and a hypernetwork as `NAME-documents`, folders beside it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamgen as sg
from streamgen.models.doc_lora_loading import Loaded, load_doc_lora
from streamgen.models.registry import resolve

from .text_turns import Turns, turns_of

TOKENS, TEXTS, CHUNK = 4096, 8, 256  # room of one session: tokens, texts at once, prompt tokens in one pass


@dataclass(frozen=True)
class TextModel:
    """Loaded once; every session writes with it in pages of its own."""

    model: Any  # a LanguageModel
    tokenizer: Any
    draft: Any  # a LanguageModel that proposes, or None
    documents: Loaded | None
    turns: Turns
    arena: Any

    @classmethod
    def load(cls, name: str, device: str, arena: Any) -> "TextModel":
        """A bundled name, a folder, or a hub id that was pulled."""
        folder = resolve(name)
        draft, documents = (_beside(folder, kind) for kind in ("draft", "documents"))
        drafts = () if draft is None else (draft,)
        with sg.TextPipeline.from_pretrained(folder, draft=drafts, device=device, tokens=16, texts=1) as pipe:
            return cls(
                pipe.model,
                pipe.tokenizer,
                next(iter(pipe.drafts), None),
                None if documents is None else load_doc_lora(documents),
                turns_of(pipe.tokenizer),
                arena,
            )

    def pipeline(self, drafted: bool) -> Any:
        """A pipeline with pages of its own; close it."""
        return sg.TextPipeline(
            self.model,
            self.tokenizer,
            draft=(self.draft,) if drafted else (),
            tokens=TOKENS,
            texts=TEXTS,
            chunk=CHUNK,
            memory=self.arena,
        )


def _beside(folder: Path, kind: str) -> Path | None:
    """A folder that belongs to this one."""
    beside = folder.with_name(f"{folder.name}-{kind}")
    return beside if beside.is_dir() else None
