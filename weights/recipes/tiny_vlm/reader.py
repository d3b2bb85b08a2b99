"""Asks the video tokens of every frame what it shows, so that the eyes learn from more than answers.

It serves the training only and is not kept. Shapes: B stories, T frames, P tokens a frame, D width.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..world.looks import BIOMES, TIMES, WEATHERS
from ..world.scene import STEPS
from ..world.sprites import COATS
from .model import PER_FRAME
from .questions import Quiz
from .things import ALL

CHOICES = (BIOMES, TIMES, WEATHERS, tuple(COATS), tuple(STEPS))
HALF = -1  # a thing that only a part can be seen of


def labels(quiz: Quiz) -> NDArray[np.int64]:
    """What each frame shows: [T, 5 + 7], an index into each of CHOICES, then 1, 0 or HALF for each thing."""
    rows = []
    frames = zip(quiz.tale.looks, quiz.tale.walks, quiz.full, quiz.part, strict=True)
    for look, walk, full, part in frames:
        said = (look.biome, look.time, look.weather, look.coat, walk)
        things = [1 if name in full else HALF if name in part else 0 for name in ALL]
        rows.append([choice.index(one) for choice, one in zip(CHOICES, said, strict=True)] + things)
    return np.array(rows)


class Reader(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.choices = nn.ModuleList(nn.Linear(PER_FRAME * width, len(choice)) for choice in CHOICES)
        self.things = nn.Linear(PER_FRAME * width, len(ALL))

    def forward(self, video: Tensor, shown: Tensor) -> Tensor:
        """Mean cross entropy of what is shown [B, T, labels], from video tokens [B, T*P, D]."""
        rows = video.reshape(shown.shape[0] * shown.shape[1], -1)
        shown = shown.flatten(0, 1)
        losses = [
            nn.functional.cross_entropy(head(rows).float(), shown[:, i])
            for i, head in enumerate(self.choices)
        ]
        things = shown[:, len(CHOICES) :]
        wrong = nn.functional.binary_cross_entropy_with_logits(
            self.things(rows).float(), things.clamp_min(0).float(), reduction="none"
        )
        return torch.stack([*losses, wrong[things != HALF].mean()]).mean()
