"""Trains `tiny-world` on one CPU core, from the weights of tiny-video.

    python -m weights.recipes.tiny_world.train --minutes 75 --out runs/tiny-world

The same student with five more input planes, which begin at zero. A third of the clips changes its look,
and what was before the change is remembered as ReCache would have it. From a third of the budget on, half
of the steps have the model's own predictions as history, and in the last fifth predictions from predictions.
"""

from pathlib import Path

import numpy as np
import torch
from diffusers import WanTransformer3DModel
from torch import Tensor
from transformers import UMT5EncoderModel

from ..tiny_video.data import Batch
from ..tiny_video.train import CLIPS, FRAMES, Run, loss, options, train
from .data import ACTIONS, batch

PURE = 0.3  # share of frames at pure noise: two steps begin there half of the time
BUNDLED = Path(__file__).parents[2] / "tiny-video"


class WorldRun(Run):
    """A run whose clips are played."""

    actions = len(ACTIONS)

    def __init__(self, out: Path, minutes: float, source: Path | None, switches: float) -> None:
        self.source, self.switches = source, switches
        super().__init__(out, minutes)

    def begin(self) -> None:
        if self.source is None:
            return
        video = WanTransformer3DModel.from_pretrained(self.source / "transformer").state_dict()
        name = "patch_embedding.weight"
        video[name] = torch.cat((video[name], torch.zeros(len(video[name]), self.actions, 1, 2, 2)), 1)
        self.student.video.load_state_dict(video)
        text = UMT5EncoderModel.from_pretrained(self.source / "text_encoder")
        self.student.text.load_state_dict(text.state_dict())

    def draw(self, numbers: np.random.Generator) -> Batch:
        return batch(CLIPS, FRAMES, numbers, self.switches)

    def value(self, data: Batch, rng: torch.Generator) -> Tensor:
        part = self.spent / self.minutes
        own = (1 if part < 0.8 else 2) if part > 0.33 and self.step % 2 == 0 else 0
        return loss(self.student, self.codec, self.tokens, data, own, rng, PURE, even=True)


def main() -> None:
    parser = options(__doc__, "runs/tiny-world")
    parser.add_argument("--source", type=Path, default=BUNDLED, help="tiny-video's folder")
    parser.add_argument("--scratch", action="store_true", help="begin from random weights instead")
    parser.add_argument("--switches", type=float, default=0.35, help="share of clips that change their look")
    asked = parser.parse_args()
    source = None if asked.scratch else asked.source
    train(WorldRun(asked.out, asked.minutes, source, asked.switches), asked.threads)


if __name__ == "__main__":
    main()
