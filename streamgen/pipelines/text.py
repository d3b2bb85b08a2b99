"""TextPipeline: prompts in, tokens out as they are decided, many texts on one paged memory."""

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from streamgen.asked import whole
from streamgen.attention.registry import AUTO, named
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.models.lm import LanguageModel, load_language_model
from streamgen.models.loading import load_tokenizer
from streamgen.models.registry import resolve
from streamgen.pipelines.text_arguments import settle_drafts, settle_widths
from streamgen.pipelines.text_beams import Beams
from streamgen.pipelines.text_chunk import Speller, TextChunk
from streamgen.pipelines.text_draft import Drafter
from streamgen.pipelines.text_engine import Engine, Group, TextCounters
from streamgen.pipelines.text_memory import PAGE_SIZE, TextMemory
from streamgen.pipelines.text_request import (
    Prompt,
    TextRequest,
    TextSampling,
    settle_lengths,
    settle_prompts,
)
from streamgen.pipelines.text_samples import Samples
from streamgen.pipelines.text_turns import Turns

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
WIDTHS = (2, 1, 1)


class TextPipeline:
    """A stock language model with a paged memory. Texts share what they have in common.

    tokens: room of the memory. texts: written at once at most. chunk: prompt tokens in one pass. draft:
    smaller models that propose `widths` children a depth, drawn by chance where `drawn`.
    """

    def __init__(
        self,
        model: LanguageModel,
        tokenizer: Any = None,
        *,
        draft: LanguageModel | Sequence[LanguageModel] = (),
        widths: Sequence[int] = WIDTHS,
        drawn: bool = False,
        tokens: int = 16384,
        texts: int = 16,
        chunk: int = 256,
        page_size: int = PAGE_SIZE,
        attention: str = AUTO,
        memory: Arena | None = None,
    ) -> None:
        tokens, texts, chunk, page_size = (
            whole(name, count, "leaves no room for a text")
            for name, count in {
                "tokens": tokens,
                "texts": texts,
                "chunk": chunk,
                "page_size": page_size,
            }.items()
        )
        if attention != AUTO:
            named(attention)
        self.model = model
        self.tokenizer = tokenizer
        self.drafts = settle_drafts(model, draft)
        self.widths = settle_widths(widths, model.vocabulary)
        self.drawn = drawn
        self.texts = texts
        self.chunk = chunk
        self.counters = TextCounters()
        self._turns = Turns()
        arena = memory or Arena(device=str(model.device))
        staged = max(chunk, self._nodes)
        self.memory = TextMemory(model, arena, tokens, texts, staged, attention, page_size)
        self.draft_memories = [
            TextMemory(one, arena, tokens, texts, staged, attention, page_size, name="draft memory")
            for one in self.drafts
        ]

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder_or_hub_id: str | Path,
        *,
        draft: str | Path | Sequence[str | Path] = (),
        device: str = "cpu",
        dtype: torch.dtype | None = None,
        windows: Sequence[int | None] | None = None,
        download: bool = False,
        **options: Any,
    ) -> Self:
        """Load a bundled checkpoint, a local folder, or a hub id (from the local cache unless `download`).

        dtype None is float32 on a CPU and bfloat16 elsewhere. `windows` replaces those of the config. The
        other options are those of the pipeline itself.
        """
        dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
        folder = resolve(name_or_folder_or_hub_id, download)
        names = [draft] if isinstance(draft, (str, Path)) else list(draft)
        drafts = [load_language_model(resolve(name, download), dtype, device) for name in names]
        model = load_language_model(folder, dtype, device, windows)
        has_tokenizer = any((folder / name).is_file() for name in TOKENIZER_FILES)
        tokenizer = load_tokenizer(folder) if has_tokenizer else None
        return cls(model, tokenizer, draft=drafts, **options)

    def stream(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        max_tokens: int | Sequence[int] = 128,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 0.0,
        seed: int = 0,
        samples: int = 1,
        beams: int = 1,
        length_penalty: float = 1.0,
        ignore_stop: bool = False,
    ) -> Iterator[TextChunk]:
        """Yield what each text gains as it is decided, until every text has ended.

        A prompt is a string or token ids; max_tokens is one number, or one for each prompt. temperature 0 is
        greedy; the same seed gives the same text alone or among others. `samples` texts are written for each
        prompt, or `beams` are searched and told at the end.
        """
        return iter(
            self.open(
                self.requests(
                    prompts,
                    max_tokens=max_tokens,
                    sampling=TextSampling(temperature, top_k, top_p, seed),
                    samples=samples,
                    beams=beams,
                    length_penalty=length_penalty,
                    ignore_stop=ignore_stop,
                )
            )
        )

    def requests(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        max_tokens: int | Sequence[int] = 128,
        sampling: TextSampling | None = None,
        samples: int = 1,
        beams: int = 1,
        length_penalty: float = 1.0,
        ignore_stop: bool = False,
    ) -> list[TextRequest]:
        """Check wishes, one for each prompt, and refuse what could not be served even alone."""
        stops = frozenset() if ignore_stop else self.model.stops
        listed = settle_prompts(prompts, self.tokenizer, self.model.vocabulary)
        requests = [
            TextRequest(prompt, most, sampling or TextSampling(), stops, samples, beams, length_penalty)
            for prompt, most in zip(listed, settle_lengths(max_tokens, len(listed)), strict=True)
        ]
        for request in requests:
            self._refuse(request)
        return requests

    def open(self, requests: Sequence[TextRequest]) -> Engine:
        """Serve requests step by step; `stream` does it for you."""
        waiting: deque[Group] = deque()
        for index, request in enumerate(requests):
            spellers = [Speller(self.tokenizer) for _ in range(request.texts)]
            kind = Beams if request.beams > 1 else Samples
            waiting.append(kind(index, request, self.memory, spellers))
        drafter = Drafter(self.draft_memories, self.widths, self.drawn) if self.drafts else None
        return Engine(self.memory, waiting, self.texts, self.chunk, self.counters, self._turns, drafter)

    def weights_changed(self) -> None:
        """Say so after an adapter was applied or removed: what was remembered for later prompts is void."""
        for memory in (self.memory, *self.draft_memories):
            memory.forget_prefixes()

    def close(self) -> None:
        """Give every byte back; closing twice is harmless."""
        for memory in (self.memory, *self.draft_memories):
            memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def _nodes(self) -> int:
        """The most nodes of a tree, all drafts merged."""
        nodes, row = 1, 1
        for width in self.widths:
            row *= width
            nodes += row * len(self.drafts)
        return nodes

    def _refuse(self, request: TextRequest) -> None:
        prompt, new = len(request.prompt), request.max_tokens
        if prompt + new > self.model.longest:
            raise UsageError(
                f"{prompt} tokens of a prompt and {new} new ones are more than the {self.model.longest} "
                f"{self.model.reach.why}; shorten one of them."
            )
        if request.texts > self.texts:
            raise UsageError(
                f"{request.texts} texts of one prompt were asked for and {self.texts} are written at once; "
                "build the pipeline with more texts, or ask for fewer."
            )
        self.memory.refuse_too_much(prompt, new, request.texts, self.chunk, self._nodes)
