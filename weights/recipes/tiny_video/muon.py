"""Muon for the matrices of the blocks: momentum, made orthogonal by a Newton-Schulz iteration, matrices
of one shape at once.

Source: Keller Jordan, "Muon: an optimizer for hidden layers" (2024); scale as in Liu et al., arXiv
2502.16982.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Muon(torch.optim.Optimizer):
    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    shapes[p.shape].append(p)
            for shape, params in shapes.items():
                update = orthogonal(torch.stack([self._momentum(p, group["momentum"]) for p in params]))
                scale = 0.2 * max(shape) ** 0.5
                for p, u in zip(params, update, strict=True):
                    p.mul_(1 - group["lr"] * group["decay"]).add_(u, alpha=-group["lr"] * scale)

    def _momentum(self, p: nn.Parameter, beta: float) -> Tensor:
        assert p.grad is not None
        state = self.state[p]
        average = state.setdefault("momentum", torch.zeros_like(p))
        average.mul_(beta).add_(p.grad)
        return p.grad + beta * average  # Nesterov


def orthogonal(x: Tensor, steps: int = 4) -> Tensor:
    """The nearest orthogonal matrices, about; x [n, rows, columns]."""
    wide = x.shape[1] > x.shape[2]
    y = (x.mT if wide else x).bfloat16()
    y = y / (y.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = y @ y.mT
        y = 3.4445 * y + (-4.7750 * gram + 2.0315 * gram @ gram) @ y
    return (y.mT if wide else y).to(x.dtype)
