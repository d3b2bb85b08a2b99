"""What a model is handed instead of a cache.

Shapes: B streams, Q queries, T staged tokens, Hq query heads, H key heads, D head dim.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor


class Attend(Protocol):
    """One attention site bound to a staged piece of somebody's memory."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Remember k, v [B, T, H, D], then answer q [B, Q, Hq, D] with everything visible."""
        ...

    def store(self, k: Tensor, v: Tensor) -> None:
        """Remember k, v [B, T, H, D] and answer nothing."""
        ...


@runtime_checkable
class Capping(Protocol):
    """An Attend whose scores become softcap * tanh(score / softcap), as Gemma 2 wants; 0 = as they are."""

    @property
    def softcap(self) -> float: ...
