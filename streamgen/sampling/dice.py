"""Chance for text: every decision hangs on a key, so a text is the same alone, in a batch and on any device.

Shapes: V vocabulary.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Protocol

import torch
from torch import Generator, Tensor


class Dice(Protocol):
    """What a sampling rule asks of chance. An exhaustive test answers with every outcome in turn."""

    def coin(self, chance: float) -> bool:
        """True with this probability."""
        ...

    def pick(self, weights: Tensor) -> int:
        """A token by its weight; weights [V] float64 on the CPU, summing to 1."""
        ...


@dataclass(frozen=True)
class KeyedDice:
    """Dice for one place of one sample of one request."""

    seed: int
    sample: int
    place: int  # of the token that is decided
    purpose: str = "target"  # draws of a draft model must not be those of the target

    @cached_property
    def _generator(self) -> Generator:
        text = f"text/{self.purpose}/{self.seed}/{self.sample}/{self.place}"
        key = blake2b(text.encode(), digest_size=8).digest()
        return torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)

    def coin(self, chance: float) -> bool:
        return bool(torch.rand((), dtype=torch.float64, generator=self._generator) < chance)

    def pick(self, weights: Tensor) -> int:
        """By the race of exponentials, which is what `torch.multinomial` runs for one sample."""
        noise = torch.empty_like(weights).exponential_(generator=self._generator)
        return int((weights / noise).argmax())
