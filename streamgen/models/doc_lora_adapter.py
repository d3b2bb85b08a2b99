"""An adapter made from a document: low-rank factors for every layer, and how several become one.

Shapes: L layers, R rank of all chunks, r rank of the learned block, A [L, R, in], B [L, R, out].
The change of a linear module is alpha * (x A^T) B.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from streamgen.errors import UsageError

Factors = Mapping[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Adapter:
    """What one or several documents change in a model."""

    told: Factors  # from the documents
    learned: Factors  # the block that every adapter of a hypernetwork has once; empty where it has none
    alpha: float

    @property
    def layers(self) -> int:
        return next(iter(self.told.values()))[0].shape[0]

    @property
    def rank(self) -> int:
        return max(a.shape[1] for a, _ in self.matrices().values())

    @property
    def nbytes(self) -> int:
        """Bytes of both factors of every layer."""
        return sum(a.nbytes + b.nbytes for a, b in self.matrices().values())

    @property
    def sizes(self) -> dict[str, tuple[int, int, int]]:
        """Layers, inputs and outputs of every module."""
        return {name: (len(a), a.shape[2], b.shape[2]) for name, (a, b) in self.told.items()}

    def matrices(self) -> dict[str, tuple[Tensor, Tensor]]:
        """A and B of every module with everything in them: what was told, then what was learned."""
        whole: dict[str, tuple[Tensor, Tensor]] = {}
        for name, (a, b) in self.told.items():
            more_a, more_b = self.learned.get(name, (a[:, :0], b[:, :0]))
            whole[name] = (torch.cat([a, more_a], 1), torch.cat([b, more_b], 1))
        return whole

    def change(self, name: str) -> Tensor:
        """What is added to the weights of a module, [L, out, in]."""
        a, b = self.matrices()[name]
        return self.alpha * b.transpose(1, 2) @ a

    def to(self, device: "str | torch.device") -> "Adapter":
        """The same adapter on another device."""
        told, learned = (
            {name: (a.to(device), b.to(device)) for name, (a, b) in factors.items()}
            for factors in (self.told, self.learned)
        )
        return Adapter(told, learned, self.alpha)


def stack(adapters: Sequence[Adapter]) -> Adapter:
    """One adapter of several documents, as if they were the chunks of one: the learned block counts once."""
    if not adapters:
        raise UsageError("No adapter was given to stack; give at least one.")
    first = adapters[0]
    if not all(_of_one_network(first, other) for other in adapters[1:]):
        raise UsageError(
            "These adapters come from different hypernetworks, or their learned blocks were scaled "
            "differently; make all of them with one, or apply them one inside the other."
        )
    told = {
        name: (
            torch.cat([adapter.told[name][0] for adapter in adapters], 1),
            torch.cat([adapter.told[name][1] for adapter in adapters], 1),
        )
        for name in first.told
    }
    return Adapter(told, first.learned, first.alpha)


def _of_one_network(one: Adapter, other: Adapter) -> bool:
    if one.alpha != other.alpha or one.sizes != other.sizes or one.learned.keys() != other.learned.keys():
        return False
    pairs = [
        (mine, theirs)
        for name in one.learned
        for mine, theirs in zip(one.learned[name], other.learned[name], strict=True)
    ]
    return all(mine is theirs or torch.equal(mine, theirs) for mine, theirs in pairs)
