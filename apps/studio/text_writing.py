"""One question that is being answered: its texts, what was proposed and accepted, and the bytes it took."""

import time
from typing import TYPE_CHECKING, Any

from .ledger import tables_record

if TYPE_CHECKING:
    from streamgen.models.doc_lora_adapter import Adapter
    from streamgen.pipelines.text_chunk import TextChunk

MOST_STEPS = 256  # that are told of the speculation


class Writing:
    """Steps an engine and remembers what a page wants to know; close it in any case."""

    def __init__(self, number: int, pipe: Any, request: Any, adapter: "Adapter | None") -> None:
        self.number = number
        self.adapter = adapter
        self._pipe = pipe
        self._request = request
        self._engine = pipe.open([request])
        self._texts = [""] * request.texts
        self._counts = [0] * request.texts
        self._finished = [""] * request.texts
        self._steps: list[dict[str, Any]] = []  # of the first text
        self._peak = {"cache_bytes": 0, "alone_bytes": 0}
        self._began = time.perf_counter()
        self._first: float | None = None
        counters = pipe.counters
        self._before = {name: vars(counters)[name] for name in ("proposed", "accepted", "shared_tokens")}

    @property
    def busy(self) -> bool:
        return bool(self._engine.busy)

    def step(self) -> None:
        """One token, or one tree, of every text."""
        news = self._engine.step()
        held = tables_record(self._pipe.memory)
        if held["alone_bytes"] >= self._peak["alone_bytes"]:
            self._peak = held
        for chunk in news:
            if self._first is None:
                self._first = time.perf_counter()
            self._texts[chunk.sample] += chunk.text
            self._counts[chunk.sample] += len(chunk.tokens)
            self._finished[chunk.sample] = chunk.finished
            if chunk.sample == 0 and chunk.tree is not None and len(self._steps) < MOST_STEPS:
                self._steps.append(self._drafted(chunk))

    def told(self) -> dict[str, Any]:
        """As far as it has come."""
        return {
            "number": self.number,
            "texts": list(self._texts),
            "tokens": list(self._counts),
            "finished": list(self._finished),
            "steps": self._steps[-1:] if self.busy else self._steps,
        }

    def summary(self) -> dict[str, Any]:
        """What it took in all."""
        now = time.perf_counter()
        counters = vars(self._pipe.counters)
        gained = {name: counters[name] - before for name, before in self._before.items()}
        return (
            self._peak
            | gained
            | {
                "prompt_tokens": len(self._request.prompt),
                "adapter_bytes": 0 if self.adapter is None else self.adapter.nbytes,
                "first_ms": round(1000 * ((self._first or now) - self._began)),
                "ms": round(1000 * (now - self._began)),
            }
        )

    def close(self) -> None:
        self._engine.close()

    def _drafted(self, chunk: "TextChunk") -> dict[str, Any]:
        """A tree as words, and which of them the model would have written too."""
        tree, spell = chunk.tree, self._pipe.tokenizer.decode
        assert tree is not None, "a step without a tree is not told"
        return {
            "words": [spell([token]) for token in tree.tokens],
            "parents": list(tree.parents),
            "accepted": list(chunk.accepted),
            "own": spell(list(chunk.tokens[len(chunk.accepted) :])),
        }
