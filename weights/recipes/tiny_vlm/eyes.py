"""The first step: the vision tower learns to see before anything is asked.

A few pixels of the hero tell coat and direction, and plain colour would drown them for long: the patch
embedding begins as the whitened principal components of patches, in which small things count as much as
large ones. Then the tower alone is trained to say what each frame shows. Shapes: B stories, T frames.
"""

import numpy as np
import torch
from torch import Tensor
from transformers import LlavaOnevisionForConditionalGeneration

from .model import PATCH
from .questions import Quiz
from .reader import labels
from .story import draw_fast, story


def sights(stories: int, frames: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Frames uint8 [B, T, 64, 64, 3] and what they show [B, T, labels]."""
    quizzes = [Quiz(story(frames, rng)) for _ in range(stories)]
    drawn = torch.from_numpy(np.stack([draw_fast(quiz.tale, rng) for quiz in quizzes]))
    return drawn, torch.from_numpy(np.stack([labels(quiz) for quiz in quizzes]))


@torch.no_grad()
def whiten(net: LlavaOnevisionForConditionalGeneration, frames: Tensor) -> None:
    """Begin the patch embedding as principal components, all of one variance."""
    stage = net.model.vision_tower.embeddings.patch_embedding
    pixels = frames.flatten(0, 1).permute(0, 3, 1, 2).float() / 127.5 - 1
    patches = torch.nn.functional.unfold(pixels, PATCH, stride=PATCH).transpose(1, 2).flatten(0, 1)
    mean, covariance = patches.mean(0), torch.cov(patches.T)
    values, vectors = torch.linalg.eigh(covariance)
    values, vectors = values.flip(0)[: len(stage.weight)], vectors.flip(1)[:, : len(stage.weight)]
    rows = (vectors / values.clamp_min(1e-6) ** 0.5).T
    rows /= (rows @ covariance @ rows.T).diagonal().sqrt().mean()
    stage.weight.copy_(rows.reshape(stage.weight.shape))
    stage.bias.copy_(-rows @ mean)
