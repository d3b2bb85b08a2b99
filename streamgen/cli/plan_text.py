"""The plan of a language model: the pipeline that would serve it, settled without weights or pages.

Shapes: n tokens of a text, m texts, S page size.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights

from streamgen.cli.facts import require_language_model
from streamgen.cli.plan import PlanAsked
from streamgen.errors import UsageError
from streamgen.models.gqa import refuse_heads
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text_memory import PAGE_SIZE, pools_of
from streamgen.runtime.memory import Share, cache_pool, weights_of
from streamgen.runtime.plan import Plan, dense_cache, largest

TOKENS, CHUNK = 4096, 256


@dataclass(frozen=True)
class TextWish:
    """Texts of n tokens each, the first `shared` of them in common."""

    model: LanguageModel  # on the meta device
    weights: Share
    tokens: int
    shared: int
    page_size: int
    chunk: int

    @classmethod
    def of(cls, asked: PlanAsked, folder: Path, dtype: torch.dtype) -> "TextWish":
        hollow = _hollow(folder, dtype, asked.gqa)
        windows = None if asked.window is None else [asked.window]
        model = LanguageModel(hollow, windows)
        tokens = min(TOKENS, model.longest) if asked.tokens is None else asked.tokens
        if tokens > model.longest:
            raise UsageError(
                f"--tokens {tokens} is more than the {model.longest} {model.reach.why}; give fewer."
            )
        if asked.shared > tokens:
            raise UsageError(
                f"--shared {asked.shared} is more than the {tokens} tokens of a text; give fewer."
            )
        chunk = min(CHUNK, tokens) if asked.chunk is None else asked.chunk
        return cls(model, weights_of(hollow), tokens, asked.shared, asked.page_size or PAGE_SIZE, chunk)

    def settled(self) -> dict[str, object]:
        windows = sorted({window for window in self.model.windows if window is not None})
        return {
            "tokens": self.tokens,
            "shared": self.shared,
            "kv_heads": self.model.kv_heads,
            "windows": windows,
            "page_size": self.page_size,
            "chunk": self.chunk,
        }

    def room(self, texts: int) -> int:
        """Tokens that a TextPipeline is built for: whole pages, what is shared once, and a page for each
        text to go on with."""
        common = self.shared // self.page_size
        own = -(-self.tokens // self.page_size) - common + 1
        return (common + texts * own) * self.page_size

    def plan(self, texts: int) -> Plan:
        """What TextPipeline(tokens=room, texts=m, ...) takes of its arena."""
        model = self.model
        room = {"tokens": self.room(texts), "texts": texts, "chunk": self.chunk, "page_size": self.page_size}
        built = f"TextPipeline({', '.join(f'{name}={value}' for name, value in room.items())})"
        pools = []
        for window, _, geometry, pages in pools_of(model, room["tokens"], texts, self.chunk, self.page_size):
            share = cache_pool(geometry, pages)
            name = "cache" if window is None else f"cache, window {window}"
            pools.append(Share(name, share.nbytes, f"{share.how}, as in {built}"))
        formula = dense_cache(model.layers, model.kv_heads, model.head_dim, self.tokens, texts, model.dtype)
        return Plan(texts, formula, (self.weights,), tuple(pools), ())

    def most_tokens(self, budget: int, texts: int) -> int:
        """How long so many texts may be."""

        def fits(tokens: int) -> bool:
            return replace(self, tokens=tokens, shared=min(self.shared, tokens)).plan(texts).fits(budget)

        return largest(fits, self.model.longest)


def _hollow(folder: Path, dtype: torch.dtype, gqa: int | None) -> Any:
    """The stock model on the meta device, with as many key heads as asked."""
    from transformers import AutoConfig, AutoModelForCausalLM

    require_language_model(str(folder), folder)
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    if gqa is not None:
        text = config.get_text_config(decoder=True)
        refuse_heads(getattr(text, "num_key_value_heads", None), gqa, config.model_type)
        text.num_key_value_heads = gqa
    with init_empty_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    model.tie_weights()
    return model
