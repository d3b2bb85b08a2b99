"""A wish for texts, checked and settled before anything is computed. V vocabulary."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from streamgen.asked import real, seed, several, whole
from streamgen.errors import UsageError
from streamgen.models.token_ids import token_ids
from streamgen.sampling.dice import KeyedDice
from streamgen.sampling.tokens import keep_top_k, keep_top_p
from streamgen.sampling.tree_verify import distribution

PENALTY = 50  # a million tokens to this power are still a float
Prompt = str | Sequence[int]


@dataclass(frozen=True)
class TextSampling:
    """How the next token is chosen; temperature 0 takes the likeliest. 0 switches top-k or top-p off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        settled = {
            "temperature": real(
                "temperature", self.temperature, "cannot be had; give a number, 0 for the likeliest token", 0
            ),
            "top_k": whole("top_k", self.top_k, "is no number of tokens to keep, where 0 keeps all", least=0),
            "top_p": real(
                "top_p", self.top_p, "is out of range; it is a share from 0 to 1, 0 keeps all", 0, 1
            ),
            "seed": seed(self.seed),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def chances(self, logits: Tensor) -> Tensor:
        """The distribution [..., V] that a token is drawn from, float64 on the CPU."""
        vocabulary = logits.shape[-1]
        wide = logits.detach().to("cpu", torch.float64)
        heated = (wide - wide.amax(-1, keepdim=True)) / self.temperature  # the best is 0, however cold it is
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
            object.__setattr__(self, name, whole(name, getattr(self, name), "makes no text"))
        scored = f"scores no beam; give a number from -{PENALTY} to {PENALTY}, 1 for the mean of its tokens"
        penalty = real("length_penalty", self.length_penalty, scored, -PENALTY, PENALTY)
        object.__setattr__(self, "length_penalty", penalty)
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
        ids = tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else prompt
        settled.append(tuple(token_ids(ids, vocabulary)))
    return settled


def settle_lengths(max_tokens: int | Sequence[int], prompts: int) -> list[int]:
    """The most new tokens of every prompt; a request checks each."""
    listed = several(max_tokens)
    if listed is None:
        listed = [max_tokens] * prompts
    if len(listed) != prompts:
        raise UsageError(
            f"{len(listed)} lengths were given for {prompts} prompts; give one for each, or one for all."
        )
    return listed
