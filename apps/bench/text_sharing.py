"""What texts save by sharing pages, on a made-up trace of ragged prompts: bytes, fill, copies.

Saved is counted as in PagedAttention (arXiv 2309.06180, section 6.3): pages that sharing saves, of those that
every text would need for itself, averaged over the steps. The model is tiny and random: only lengths count.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from streamgen.kv.draft import Draft
from streamgen.kv.pages import Holder
from streamgen.kv.pool import PagePool
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_request import TextSampling

VOCABULARY = 211


@dataclass(frozen=True)
class Trace:
    """Lengths are log-normal with these means: those of ShareGPT, as the paper gives them."""

    requests: int = 12
    prompt: int = 161
    output: int = 338
    seed: int = 0

    def lengths(self) -> list[tuple[int, int]]:
        dice = random.Random(self.seed)

        def draw(of: int) -> int:
            return max(4, min(3 * of, round(dice.lognormvariate(0, 0.6) * of / 1.2)))

        return [(draw(self.prompt), draw(self.output)) for _ in range(self.requests)]

    def prompts(self, prefix: int = 0) -> list[list[int]]:
        dice = random.Random(self.seed + 1)
        shared = [dice.randrange(VOCABULARY) for _ in range(prefix)]
        return [shared + [dice.randrange(VOCABULARY) for _ in range(length)] for length, _ in self.lengths()]

    def outputs(self) -> list[int]:
        return [output for _, output in self.lengths()]


@dataclass(frozen=True)
class Saved:
    """One way to share, over all steps of the trace."""

    kind: str
    page_size: int
    saved: float  # share of bytes, mean over steps
    peak_bytes: int
    unshared_peak_bytes: int  # of the same step's texts, each with pages of its own
    fill: float  # tokens stored of slots in use, mean over steps
    most_copies: int  # pages that one text copied in one step, the most of all texts and steps
    prompt_tokens_saved: float  # share of prompt tokens that need not be computed


def tiny_model() -> LanguageModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        initializer_range=0.5,
    )
    return LanguageModel(LlamaForCausalLM(config).eval().requires_grad_(False))


@contextmanager
def copying(pool: PagePool) -> Iterator[Counter[Holder]]:
    """Pages copied for each text, by its table; whoever reads it clears it."""
    copies: Counter[Holder] = Counter()
    duplicate = pool.duplicate

    def counted(pages: Sequence[int], holder: Holder) -> list[int]:
        copies[holder.table if isinstance(holder, Draft) else holder] += len(pages)
        return duplicate(pages, holder)

    pool.duplicate = counted  # type: ignore[method-assign]
    try:
        yield copies
    finally:
        del pool.duplicate


def measure(kind: str, trace: Trace, page_size: int, prefix: int = 0, **wish: Any) -> Saved:
    """Run the whole trace and look at the pool after every step."""
    options = {"tokens": 65536, "texts": 48, "chunk": 512, "page_size": page_size, "attention": "sdpa"}
    with TextPipeline(tiny_model(), **options) as pipe:
        requests = pipe.requests(
            trace.prompts(prefix), max_tokens=trace.outputs(), ignore_stop=True, **_settled(wish)
        )
        pool = pipe.memory.groups[0].pool
        engine = pipe.open(requests)
        shares, fills, most, peak, alone_peak = [], [], 0, 0, 0
        with copying(pool) as copies:
            while engine.busy:
                copies.clear()
                engine.step()
                counters = pool.counters()
                alone = sum(-(-cache.tokens // page_size) for cache in pool.caches)
                if alone:
                    shares.append(1 - counters.used / alone)
                    fills.append(counters.fill)
                most = max(most, *copies.values(), 0)
                peak, alone_peak = max(peak, counters.used), max(alone_peak, alone)
        page_bytes = pool.geometry.page_bytes
        asked = pipe.counters.prompt_tokens + pipe.counters.shared_tokens
        found = pipe.counters.shared_tokens / asked
    return Saved(
        kind, page_size, mean(shares), peak * page_bytes, alone_peak * page_bytes, mean(fills), most, found
    )


def _settled(wish: dict[str, Any]) -> dict[str, Any]:
    temperature = wish.pop("temperature", 0.0)
    return {"sampling": TextSampling(temperature), **wish}


def measure_all(trace: Trace, page_size: int, counts: Sequence[int] = (2, 4, 6)) -> list[Saved]:
    """No sharing, parallel samples, beams, and prefixes of one and of five examples (80 and 341 tokens)."""
    rows = [measure("alone", trace, page_size)]
    rows += [measure(f"{n} samples", trace, page_size, samples=n, temperature=1.0) for n in counts]
    rows += [measure(f"{n} beams", trace, page_size, beams=n) for n in counts]
    return rows + [measure(f"prefix of {n}", trace, page_size, prefix=n) for n in (80, 341)]
