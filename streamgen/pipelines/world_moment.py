"""Everything of a world but its pages, as a value: a fork, an undo and a file only keep it.

Shapes: C latent channels, n latent frames, h and w latent size, A actions, N text rows, D text dim.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from streamgen.models.wan import TextKV
from streamgen.models.wan_vae import VaeState
from streamgen.pipelines.world_prompt import Transition


@dataclass(frozen=True)
class Moment:
    """Where a world stands between two chunks."""

    prompt: str
    embeds: Tensor  # [1, N, D], the text in force
    text: TextKV
    vae: VaeState
    recent: Tensor  # [1, C, n, h, w], the latents of the remembered frames
    acts: Tensor  # [n, A], what the player did in them
    index: int = 0  # of the next chunk, and its place in the noise
    frame: int = 0  # number of the next pixel frame
    latent: int = 0  # number of the next latent frame
    sink: int = 0  # where the keys of the sink stand
    block: int = 0  # latent frames of the last chunk
    events: int = 0  # of the control log
    transition: Transition | None = None

    def extended(self, latents: Tensor, acts: Tensor, held: int) -> "Moment":
        """With a chunk more; what is no longer remembered is let go."""
        recent = torch.cat((self.recent, latents), dim=2)[:, :, -held:].clone()
        return replace(
            self,
            recent=recent,
            acts=torch.cat((self.acts, acts))[-held:].clone(),
            latent=self.latent + latents.shape[2],
            block=latents.shape[2],
        )

    def emptied(self, vae: VaeState) -> "Moment":
        """After a cut: nothing is remembered, and the decoder begins anew."""
        return replace(
            self, vae=vae, recent=self.recent[:, :, :0], acts=self.acts[:0], latent=0, sink=0, block=0
        )

    def to(self, device: torch.device | str) -> "Moment":
        """The same moment with its tensors elsewhere."""
        features = tuple(f.to(device) if isinstance(f, Tensor) else f for f in self.vae.features)
        moving = self.transition
        return replace(
            self,
            embeds=self.embeds.to(device),
            text=TextKV(tuple((k.to(device), v.to(device)) for k, v in self.text.layers)),
            vae=VaeState(features, self.vae.frames),
            recent=self.recent.to(device),
            acts=self.acts.to(device),
            transition=moving and replace(moving, start=moving.start.to(device), end=moving.end.to(device)),
        )
