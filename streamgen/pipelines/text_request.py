"""A wish for texts, checked and settled before anything is computed. V vocabulary."""

import math
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.sampling.dice import KeyedDice
from streamgen.sampling.tokens import keep_top_k, keep_top_p
from streamgen.sampling.tree_verify import distribution

SEEDS = 2**63
Prompt = str | Sequence[int]


@dataclass(frozen=True)
class TextSampling:
    """How the next token is chosen; temperature 0 takes the likeliest. 0 switches top-k or top-p off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(
                f"A temperature of {self.temperature:g} cannot be had; give 0 for the likeliest token."
            )
        if isinstance(self.top_k, bool) or self.top_k != int(self.top_k) or self.top_k < 0:
            raise UsageError(f"top_k={self.top_k} keeps no tokens; give a whole number, 0 keeps all.")
        if not 0 <= self.top_p <= 1:
            raise UsageError(f"top_p={self.top_p:g} is out of range; it is a share from 0 to 1, 0 keeps all.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < SEEDS:
            raise UsageError(f"{self.seed!r} is no seed; a seed is a whole number from 0 to 2**63 - 1.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def chances(self, logits: Tensor) -> Tensor:
        """The distribution [..., V] that a token is drawn from, float64 on the CPU."""
        vocabulary = logits.shape[-1]
        heated = logits.detach().to("cpu", torch.float64) / self.temperature
        return distribution(keep_top_p(keep_top_k(heated, min(self.top_k, vocabulary)), self.top_p))

    def dice(self, sample: int, place: int, purpose: str = "target") -> KeyedDice:
        """Chance for the token at this place of a text, counted from the end of the prompt."""
        return KeyedDice(self.seed, sample, place, purpose)


@dataclass(frozen=True)
class TextRequest:
    """One prompt and what is wanted after it; the same request gives the same text."""

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: TextSampling
    stops: frozenset[int]
    samples: int = 1
    beams: int = 1
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not self.prompt:
            raise UsageError(
                "A prompt has no tokens; give at least one, such as the tokenizer's first token."
            )
        for name in ("max_tokens", "samples", "beams"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise UsageError(f"{name}={count!r} makes no text; give a whole number from 1 on.")
        if self.beams > 1 and (self.samples > 1 or not self.sampling.greedy):
            raise UsageError("Beam search takes no temperature and no samples; leave them out, or the beams.")
        if self.samples > 1 and self.sampling.greedy:
            raise UsageError(
                f"{self.samples} samples at temperature 0 would all be the same text; raise the temperature."
            )

    @property
    def texts(self) -> int:
        """Texts that are written at once."""
        return max(self.samples, self.beams)


def settle_prompts(
    prompts: Prompt | Sequence[Prompt], tokenizer: Any, vocabulary: int
) -> list[tuple[int, ...]]:
    """Token ids of every prompt; strings need a tokenizer. Arrays and tensors of ids count as lists."""
    if hasattr(prompts, "tolist"):
        prompts = prompts.tolist()
    if not isinstance(prompts, Sequence):
        raise UsageError(
            f"A prompt of type {type(prompts).__name__} was given; give a text, token ids, or a list of them."
        )
    single = isinstance(prompts, str) or (len(prompts) > 0 and isinstance(prompts[0], numbers.Number))
    listed: list[Any] = [prompts] if single else list(prompts)
    if not listed:
        raise UsageError("No prompt was given; give a text, token ids, or a list of them.")
    settled = []
    for prompt in listed:
        if isinstance(prompt, str) and tokenizer is None:
            raise UsageError(
                "This checkpoint has no tokenizer, so a prompt is a list of token ids (with --ids on the "
                "command line); give ids, or add a tokenizer."
            )
        ids = tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else _ids(prompt)
        wrong = [token for token in ids if not 0 <= token < vocabulary]
        if wrong:
            raise UsageError(f"Token {wrong[0]} is unknown; this model knows 0 to {vocabulary - 1}.")
        settled.append(tuple(ids))
    return settled


def _ids(prompt: Any) -> list[int]:
    listed = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    try:
        if isinstance(listed, bytes):
            raise TypeError("bytes are no token ids")
        return [operator.index(token) for token in listed]
    except TypeError as error:
        raise UsageError(
            f"{prompt!r:.60} is no prompt; give a text, or token ids, which are whole numbers."
        ) from error


def settle_lengths(max_tokens: int | Sequence[int], prompts: int) -> list[int]:
    """The most new tokens of every prompt."""
    listed = [max_tokens] * prompts if isinstance(max_tokens, int) else list(max_tokens)
    if len(listed) != prompts:
        raise UsageError(
            f"{len(listed)} lengths were given for {prompts} prompts; give one for each, or one for all."
        )
    return listed
