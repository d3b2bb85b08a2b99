"""Documents that a TextPipeline has read once and knows by an adapter, without them in any prompt.

    documents = TextDocuments(pipe, "tiny-lm-documents")  # a bundled name, or load_doc_lora(path)
    adapter = documents.internalize("The castle lies in the north. ...")
    with documents.known(adapter):
        for chunk in pipe.stream("where does the castle lie?"): ...

Shapes: S tokens, D model width.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.doc_lora_adapter import Adapter
from streamgen.models.doc_lora_apply import applied
from streamgen.models.doc_lora_chunks import Affixes
from streamgen.models.doc_lora_encoder import features
from streamgen.models.doc_lora_loading import Loaded, load_doc_lora
from streamgen.models.doc_lora_reader import DocToLora
from streamgen.models.registry import resolve
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_memory import Past


class TextDocuments:
    """Reads documents with the pipeline's own model, in its memory; nothing of them stays but the adapter."""

    def __init__(
        self, pipe: TextPipeline, loaded: Loaded | str | Path, affixes: Affixes | None = None
    ) -> None:
        """loaded: a hypernetwork, or the bundled name, path or hub id of one."""
        self.pipe = pipe
        if isinstance(loaded, (str, Path)):
            loaded = load_doc_lora(resolve(loaded))
        self.reader = DocToLora(pipe.model.model, loaded, affixes)

    def internalize(self, document: str, chunk_tokens: int | None = None, **how: Any) -> Adapter:
        """The adapter of a text; without `chunk_tokens` it is read in one piece."""
        if self.pipe.tokenizer is None:
            raise UsageError("This checkpoint has no tokenizer; give the document to internalize_ids().")
        return self.reader.internalize(self.pipe.tokenizer, document, chunk_tokens, read=self._read, **how)

    def internalize_ids(self, ids: Sequence[int], chunk_tokens: int | None = None, **how: Any) -> Adapter:
        """The adapter of a document given as tokens, affixes included."""
        return self.reader.internalize_ids(ids, chunk_tokens, read=self._read, **how)

    @contextmanager
    def known(self, adapter: Adapter) -> Iterator[None]:
        """Texts that are streamed in here are written by someone who knows the document.

        All of them: a pipeline has one adapter at a time. Streams that are open meanwhile go on with it, too.
        """
        if not isinstance(adapter, Adapter):
            raise UsageError(
                f"known() takes one adapter and was given a {type(adapter).__name__}; stack([...]) makes one "
                "of several, internalize() one of a document."
            )
        with applied(self.pipe.model.model, adapter):
            self.pipe.weights_changed()
            try:
                yield
            finally:
                self.pipe.weights_changed()

    def _read(self, chunk: Sequence[int]) -> list[Tensor]:
        """What goes into each layer, [1, S, D]: computed in pieces, as prompts are."""
        size = self.pipe.chunk
        with closing(self.pipe.memory.open("document")) as past:
            pieces = [self._piece(past, chunk[start : start + size]) for start in range(0, len(chunk), size)]
        return [torch.cat(layer, 1) for layer in zip(*pieces, strict=True)]

    def _piece(self, past: Past, ids: Sequence[int]) -> list[Tensor]:
        memory, model = self.pipe.memory, self.pipe.model
        with ExitStack() as undo:
            stages = [
                undo.enter_context(cache.stage(len(ids), group.mask(None)))
                for group, cache in zip(memory.groups, past.caches, strict=True)
            ]
            row = torch.tensor([list(ids)], device=model.device)
            heard = features(model.model, row, attends=memory.attends([stages]), start=past.length)
            for stage in stages:
                stage.commit()
        past.length += len(ids)
        return heard
