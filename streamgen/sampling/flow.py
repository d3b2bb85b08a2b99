"""The few-step flow schedule of causal video models, and the noise of a stream.

A step estimates the clean latents, then goes on to the next noise level: distilled models mix the estimate
with fresh noise (Self-Forcing, CausVid), models that were not distilled keep their noise (Euler).
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Literal

import torch
from torch import Tensor

TRAIN_STEPS = 1000
Prediction = Literal["flow_prediction", "sample"]
Sampler = Literal["renoise", "euler"]


@dataclass(frozen=True)
class FlowSchedule:
    """Times to visit, in [0, 1000]; `warp` looks the listed steps up in the shifted table."""

    shift: float
    steps: tuple[float, ...]
    warp: bool
    prediction: Prediction
    sampler: Sampler

    def __post_init__(self) -> None:
        if self.prediction not in ("flow_prediction", "sample"):
            raise ValueError(
                f"The prediction '{self.prediction}' is unknown; "
                "choose 'flow_prediction' (noise - clean) or 'sample' (clean)."
            )
        if self.sampler not in ("renoise", "euler"):
            raise ValueError(
                f"The sampler '{self.sampler}' is unknown; "
                "choose 'renoise' (fresh noise each step) or 'euler' (the noise it came from)."
            )
        if not self.steps or any(not 0 <= step <= TRAIN_STEPS for step in self.steps):
            raise ValueError(
                f"Steps are times from {TRAIN_STEPS} down to 0 and at least one; got {list(self.steps)}."
            )
        if any(later >= earlier for earlier, later in zip(self.steps, self.steps[1:], strict=False)):
            raise ValueError(
                f"Steps run from noise to clean, each below the one before; got {list(self.steps)}."
            )
        if self.warp and any(step != int(step) for step in self.steps):
            raise ValueError(f"Warped steps are whole numbers, places in a table; got {list(self.steps)}.")

    @cached_property
    def _sigmas(self) -> Tensor:
        even = torch.linspace(1.0, 0.0, TRAIN_STEPS + 1)[:-1]
        return self.shift * even / (1 + (self.shift - 1) * even)

    @cached_property
    def timesteps(self) -> tuple[float, ...]:
        """The times that the model is given."""
        if not self.warp:
            return tuple(float(step) for step in self.steps)
        table = [*(self._sigmas * TRAIN_STEPS).tolist(), 0.0]
        return tuple(table[TRAIN_STEPS - int(step)] for step in self.steps)

    def sigma(self, t: float) -> float:
        """The noise level of time t: that of the nearest entry of the table, so never quite 0."""
        nearest = (self._sigmas * TRAIN_STEPS - t).abs().argmin()
        return float(self._sigmas[nearest])

    @cached_property
    def sigmas(self) -> tuple[float, ...]:
        """The noise level of each timestep."""
        return tuple(self.sigma(t) for t in self.timesteps)

    def x0(self, x: Tensor, out: Tensor, sigma: float) -> Tensor:
        """The clean latents that the model's output `out` at x stands for."""
        return out if self.prediction == "sample" else x - sigma * out


def kept_noise(x: Tensor, x0: Tensor, sigma: float) -> Tensor:
    """The noise in x at level sigma, given what is clean in it; taken to the next level: an Euler step."""
    return (x - (1 - sigma) * x0) / sigma


def renoise(x0: Tensor, noise: Tensor, sigma: float) -> Tensor:
    """Clean latents taken back to a noise level."""
    return (1 - sigma) * x0 + sigma * noise


def noise(seed: int, stream: int, chunk: int, step: int, shape: tuple[int, ...]) -> Tensor:
    """Normal noise that depends on its key alone, drawn on the CPU: the same in any batch, for any device."""
    key = blake2b(f"{seed}/{stream}/{chunk}/{step}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)
    return torch.randn(shape, generator=generator)
