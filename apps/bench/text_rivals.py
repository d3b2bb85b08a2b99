"""Texts beside transformers' own cache classes: one mid-size random model, the same greedy tokens, in turns.

The rivals run the same weights with `DynamicCache` or `StaticCache` and sdpa attention: in a bare loop over
the model's forward (no sampling, no stopping, no text), and in transformers' own `generate`, which does what
a program of texts needs. Included: prompts and new tokens, from ids to ids.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM, StaticCache
from transformers.cache_utils import Cache

from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline

Tokens = list[list[int]]
# Seconds until every stream has a token, seconds after that, tokens that came after that, all new tokens.
Run = Callable[[], tuple[float, float, int, Tokens]]


@dataclass(frozen=True)
class Size:
    """A random Qwen2; its last layers hardly matter, so that the first ones make a draft that agrees."""

    layers: int = 8
    draft_layers: int = 1
    width: int = 512
    inner: int = 1408
    heads: int = 8
    kv_heads: int = 4
    vocabulary: int = 4096
    prefix: int = 496
    own: int = 16  # prompt tokens after the prefix
    tokens: int = 32
    streams: int = 16


SIZES = {"mid": Size(), "tiny": Size(2, 1, 32, 48, 4, 2, 64, 24, 4, 6, 3)}


@dataclass(frozen=True)
class Timing:
    """Medians over the rounds; tokens are new ones of all streams."""

    name: str
    streams: int
    prompt_s: float
    new_s: float
    tokens_per_s: float  # new tokens over all seconds
    new_tokens_per_s: float  # those that came after everybody had one, over the seconds after that
    acceptance: float | None = None


def stock(size: Size, layers: int | None = None, faint: float = 0.02) -> Any:
    """Random weights; what layers behind the draft's add is scaled by `faint`."""
    config = Qwen2Config(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        max_position_embeddings=8192,
        initializer_range=0.05,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).eval().requires_grad_(False)
    for layer in model.model.layers[size.draft_layers :]:
        layer.self_attn.o_proj.weight *= faint
        layer.mlp.down_proj.weight *= faint
    if layers is not None:
        model.model.layers = model.model.layers[:layers]
        model.config.num_hidden_layers = layers
        model.config.layer_types = model.config.layer_types[:layers]
    return model


def prompts_of(size: Size, streams: int) -> list[list[int]]:
    """Prompts of one length that share their beginning."""
    generator = torch.Generator().manual_seed(1)

    def ids(count: int) -> list[int]:
        return torch.randint(0, size.vocabulary, (count,), generator=generator).tolist()

    shared = ids(size.prefix)
    return [shared + ids(size.own) for _ in range(streams)]


def clock() -> Callable[[], float]:
    """Processor time with one thread, which a busy machine does not stretch; else the clock on the wall."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def rival(model: Any, kind: str, prompts: Sequence[Sequence[int]], tokens: int) -> Run:
    """A bare greedy loop with one of transformers' caches."""
    ids = torch.tensor(list(map(list, prompts)))
    now = clock()

    @torch.inference_mode()
    def run() -> tuple[float, float, int, Tokens]:
        began = now()
        cache = cache_of(kind, model, ids.shape[1] + tokens)
        logits = model(ids, cache=cache, use_cache=True, logits_to_keep=1).logits
        news: list[Tensor] = [logits[:, -1].argmax(-1, keepdim=True)]
        first = now()
        for _ in range(tokens - 1):
            logits = model(news[-1], cache=cache, use_cache=True).logits
            news.append(logits[:, -1].argmax(-1, keepdim=True))
        rows = torch.cat(news, 1).tolist()
        return first - began, now() - first, (tokens - 1) * len(rows), rows

    return run


def generated(model: Any, kind: str, prompts: Sequence[Sequence[int]], tokens: int) -> Run:
    """transformers' `generate`, greedy, with one of its caches."""
    ids = torch.tensor(list(map(list, prompts)))
    now = clock()
    times: list[float] = []

    def mark(written: Tensor, scores: Tensor, **_: Any) -> Tensor:
        times.append(now())
        return torch.zeros(len(written), dtype=torch.bool)

    def run() -> tuple[float, float, int, Tokens]:
        times.clear()
        began = now()
        rows = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            past_key_values=cache_of(kind, model, ids.shape[1] + tokens),
            max_new_tokens=tokens,
            do_sample=False,
            stopping_criteria=[mark],
        )[:, ids.shape[1] :].tolist()
        return times[0] - began, now() - times[0], (tokens - 1) * len(rows), rows

    return run


def cache_of(kind: str, model: Any, longest: int) -> Cache:
    if kind == "DynamicCache":
        return DynamicCache(config=model.config)
    return StaticCache(config=model.config, max_cache_len=longest)


def ours(pipe: TextPipeline, prompts: Sequence[Sequence[int]], tokens: int) -> Run:
    """A stream of streamgen; nothing is remembered from one round to the next."""
    now = clock()

    def run() -> tuple[float, float, int, Tokens]:
        pipe.weights_changed()
        began = now()
        engine = pipe.open(pipe.requests(prompts, max_tokens=tokens, ignore_stop=True))
        first, early = 0.0, 0
        texts: Tokens = [[] for _ in prompts]
        while engine.busy:
            for chunk in engine.step():
                texts[chunk.prompt] += chunk.tokens
            if not first and all(texts):
                first, early = now(), sum(map(len, texts))
        return first - began, now() - first, sum(map(len, texts)) - early, texts

    return run


def compare(runs: dict[str, Run], rounds: int, tokens: int, streams: int) -> tuple[list[Timing], float]:
    """Everybody in turns, to and fro, after a round that does not count; and how many tokens all agree on."""
    seen: dict[str, list[tuple[float, float, float]]] = {name: [] for name in runs}
    agree: list[bool] = []
    for number in range(rounds + 1):
        answers = {}
        for name in list(runs)[:: -1 if number % 2 else 1]:
            prompt_s, new_s, later, answers[name] = runs[name]()
            if number:
                seen[name].append((prompt_s, new_s, later / new_s))
        reference = answers[next(iter(runs))]
        agree += [
            left == right
            for rows in answers.values()
            for ours_, theirs in zip(rows, reference, strict=True)
            for left, right in zip(ours_, theirs, strict=True)
        ]
    timings = []
    for name, pairs in seen.items():
        prompt_s, new_s, rate = (median(column) for column in zip(*pairs, strict=True))
        timings.append(Timing(name, streams, prompt_s, new_s, tokens * streams / (prompt_s + new_s), rate))
    return timings, sum(agree) / len(agree)


def pipes(size: Size, attention: str) -> tuple[TextPipeline, TextPipeline]:
    """The model alone, and with the draft that its first layers make."""
    options = {
        "tokens": 2 * size.streams * (size.prefix + size.own + size.tokens + 16),
        "texts": size.streams,
        "chunk": 1024,
        "attention": attention,
    }
    plain = TextPipeline(LanguageModel(stock(size)), **options)
    draft = LanguageModel(stock(size, size.draft_layers))
    speculating = TextPipeline(plain.model, draft=draft, widths=(1, 1, 1, 1), **options)
    return plain, speculating
