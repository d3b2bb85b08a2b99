"""Texts in a page: a question with a document in the prompt, with the document as an adapter, or without it.

The model is shared; pages, adapter and chance are the session's own. An adapter is on for one turn at a time,
so nobody else's text is written by someone who knows the document.
"""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamgen.errors import UsageError

from .ledger import pool_record
from .player import Player
from .text_writing import Writing
from .wire import Words

if TYPE_CHECKING:
    from streamgen.models.doc_lora_adapter import Adapter

    from .text_model import TextModel

WAYS = ("prompt", "adapter", "nothing")  # how a question knows the document
MOST_TOKENS = 512


@dataclass(frozen=True)
class Read:
    """A document that was read into an adapter, and what it would take as keys and values."""

    adapter: "Adapter"
    tokens: int
    cache_bytes: int


class TextPlayer(Player):
    """One pipeline over the shared model, opened by the first order; one question at a time."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.read: Read | None = None
        self.pipe: Any = None
        self._on: Adapter | None = None  # what the pages were written under
        self._writing: Writing | None = None
        self._number = 0

    def wants(self, now: float) -> float | None:
        return None if self._writing is None else now

    def work(self) -> None:
        """One step of every text."""
        writing = self._writing
        assert writing is not None, "wants() was asked"
        with self._knowing(writing.adapter):
            writing.step()
        if not writing.busy:
            self._writing = None
            self.outbox.say("written", **writing.told(), **writing.summary())
            writing.close()
        else:
            self.outbox.show("writing", **writing.told())

    def obey(self, words: Words) -> None:
        orders = {"read": self._read, "write": self._write, "stop": lambda words: self.halt()}
        if words["do"] not in orders:
            raise UsageError(f"Texts do not know {words['do']!r}; they know {', '.join(orders)}.")
        orders[words["do"]](words)

    def halt(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.close()
        pipe, self.pipe = self.pipe, None
        if pipe is not None:
            pipe.close()
            self.outbox.say("stopped")

    def record(self) -> dict[str, Any]:
        pools = []
        if self.pipe is not None:
            memories = [self.pipe.memory, *self.pipe.draft_memories]
            for owner, memory in zip(("texts", "draft"), memories, strict=False):
                pools += [pool_record(group.pool, owner) for group in memory.groups]
        return {"session": self.key[:6], "tab": self.slot.tab, "model": self.slot.name, "pools": pools}

    def _read(self, words: Words) -> None:
        """The document as an adapter; its pages are free again when it is made."""
        from streamgen.pipelines.text_documents import TextDocuments

        model: TextModel = self.slot.pipeline
        if model.documents is None:
            raise UsageError(
                f"No hypernetwork lies beside {self.slot.name}, so documents cannot be made adapters; "
                f"ask with the document in the prompt, or put a folder {self.slot.name}-documents there."
            )
        if self._writing is not None:
            raise UsageError("A text is being written; read the document when it is done, or press Stop.")
        pipe = self._opened(drafted=self.pipe is not None and bool(self.pipe.drafts))
        began = time.perf_counter()
        text = model.turns.spelled(words["document"])
        documents = TextDocuments(pipe, model.documents)
        adapter = documents.internalize(text)
        tokens = len(pipe.tokenizer(text, add_special_tokens=False)["input_ids"])
        slot = sum(group.pool.geometry.slot_bytes for group in pipe.memory.groups)
        self.read = Read(adapter, tokens, tokens * slot)
        self.outbox.say(
            "was read",
            tokens=tokens,
            adapter_bytes=adapter.nbytes,
            cache_bytes=self.read.cache_bytes,
            ms=round(1000 * (time.perf_counter() - began)),
        )

    def _write(self, words: Words) -> None:
        from streamgen.pipelines.text_request import TextSampling

        model: TextModel = self.slot.pipeline
        if self._writing is not None:
            raise UsageError("A text is being written; wait until it is done, or press Stop.")
        way = words.get("way", "prompt")
        prompt = model.turns.prompt(self._document(way, words), self._question(words))
        pipe = self._opened(drafted=words.get("drafted", False))
        sampling = TextSampling(
            float(words.get("temperature", 0.0)), words.get("top_k", 0), 0.0, words.get("seed", 0)
        )
        requests = pipe.requests(
            [prompt],
            max_tokens=min(words.get("max_tokens", 64), MOST_TOKENS),
            sampling=sampling,
            samples=words.get("samples", 1),
        )
        adapter = self.read.adapter if way == "adapter" and self.read is not None else None
        if adapter is not self._on:
            pipe.weights_changed()  # what was remembered of prompts was computed by other weights
            self._on = adapter
        self._number += 1
        self._writing = Writing(self._number, pipe, requests[0], adapter)
        self.outbox.say("started", number=self._number, way=way, prompt_tokens=len(requests[0].prompt))

    def _document(self, way: str, words: Words) -> str:
        if way not in WAYS:
            raise UsageError(
                f"There is no way {way[:40]!r}; a question knows the document by {', '.join(WAYS)}."
            )
        if way == "adapter" and self.read is None:
            raise UsageError("No document was read into an adapter yet; read one first.")
        if way != "prompt":
            return ""
        return str(self.slot.pipeline.turns.spelled(words.get("document", "")))

    def _question(self, words: Words) -> str:
        question = str(self.slot.pipeline.turns.spelled(words["question"]))
        if not question:
            raise UsageError("No question was asked; write one, such as: what does ben carry ?")
        return question

    def _opened(self, drafted: bool) -> Any:
        """The session's pipeline; with or without a draft it is another one."""
        model: TextModel = self.slot.pipeline
        if drafted and model.draft is None:
            raise UsageError(
                f"No draft model lies beside {self.slot.name}; write without one, or put a folder "
                f"{self.slot.name}-draft there."
            )
        if self.pipe is not None and bool(self.pipe.drafts) != drafted:
            self.pipe.close()
            self.pipe = None
        if self.pipe is None:
            self.pipe, self._on = model.pipeline(drafted), None
        return self.pipe

    def _knowing(self, adapter: "Adapter | None") -> Any:
        from streamgen.models.doc_lora_apply import applied

        model: TextModel = self.slot.pipeline
        return nullcontext() if adapter is None else applied(model.model.model, adapter)
