"""How a stock Wan backbone hears of a player's actions: as constant input planes, or as an embedding.

Shapes: B streams, F latent frames, A actions, D model dim, T tokens, h and w latent size, P planes.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from streamgen.errors import UsageError
from streamgen.models.published import refuse_misfits
from streamgen.models.wan import CausalWan

FILE = "actions.safetensors"


def action_planes(still: Tensor | None, acts: Tensor, size: tuple[int, int]) -> Tensor:
    """Constant planes [P, h, w] followed by one plane an action, [P + A, F, h, w], from acts [F, A]."""
    frames, count = acts.shape
    planes = acts.T[:, :, None, None].expand(count, frames, *size)
    if still is None:
        return planes
    return torch.cat((still[:, None].expand(-1, frames, -1, -1), planes))


class ActionEmbedding(nn.Module):
    """Six modulation vectors a latent frame; the last layer starts at zero, so nothing changes untrained."""

    def __init__(self, actions: int, dim: int, hidden: int = 64) -> None:
        super().__init__()
        self.dim = dim
        self.first = nn.Linear(actions, hidden)
        self.act = nn.SiLU()
        self.last = nn.Linear(hidden, 6 * dim)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, acts: Tensor) -> Tensor:
        """[B, F, A] -> [B, F, 6, D]."""
        vectors: Tensor = self.last(self.act(self.first(acts.to(self.first.weight.dtype))))
        return vectors.unflatten(-1, (6, self.dim))

    @torch.no_grad()
    def bind(self, model: CausalWan, acts: Tensor) -> CausalWan:
        """The model for a chunk under these actions [F, A]; it shares everything with the one given."""
        return ActedWan(model, self(acts[None].to(self.first.weight.device)))

    def save(self, folder: Path) -> None:
        """Write the weights beside the transformer."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: weight.contiguous() for name, weight in self.state_dict().items()}, folder / FILE)


def load_action_embedding(folder: Path, actions: int, dim: int, dtype: torch.dtype) -> ActionEmbedding:
    """The conditioner of a checkpoint; every size has to fit."""
    path = folder / FILE
    if not path.is_file():
        raise UsageError(f"There is no {path}, which holds how actions reach the model; add it.")
    state = load_file(path)
    first = state.get("first.weight")
    embedding = ActionEmbedding(actions, dim, hidden=64 if first is None else len(first))
    expected = embedding.state_dict()
    refuse_misfits(
        f"an action embedding of {actions} actions and a model of dim {dim}",
        missing=expected.keys() - state.keys(),
        unknown=state.keys() - expected.keys(),
        misshapen=[n for n in expected.keys() & state.keys() if expected[n].shape != state[n].shape],
    )
    embedding.load_state_dict(state)
    return embedding.requires_grad_(False).to(dtype).eval()


class ActedWan(CausalWan):
    """A CausalWan whose blocks hear, in each latent frame, of what the player does there."""

    def __init__(self, model: CausalWan, shift: Tensor) -> None:
        self.__dict__.update(model.__dict__)  # the same weights and caches; the processors are in place
        self.shift = shift  # [B, F, 6, D]

    def _time(self, t: Tensor, hidden: Tensor, frames: int) -> tuple[Tensor, Tensor]:
        temb, modulation = super()._time(t, hidden, frames)
        shift = self.shift.repeat_interleave(hidden.shape[1] // frames, dim=1).type_as(modulation)
        return temb, (modulation[:, None] if t.ndim == 1 else modulation) + shift
