"""The judge: a small classifier of real digits that has never seen a generated one."""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from .digits import CLASSES, Digits, coloured

STEPS, BATCH, RATE = 1500, 64, 2e-3
BUNDLED = Path(__file__).with_name("judge.safetensors")


def judge() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 16, CLASSES),
    )  # fmt: skip


def train(digits: Digits, steps: int = STEPS) -> nn.Sequential:
    torch.manual_seed(1)
    model, rng = judge(), torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
        pictures, labels = digits.batch(BATCH, rng)
        F.cross_entropy(model(pictures[:, :1]), labels, label_smoothing=0.05).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@torch.no_grad()
def verdicts(model: nn.Sequential, pictures: Tensor) -> Tensor:
    """Which digit each picture [N, 3, 32, 32] in [-1, 1] is."""
    return torch.cat([model(part.mean(1, keepdim=True)).argmax(1) for part in pictures.split(250)])


def bundled() -> nn.Sequential:
    """The judge of the checkpoint that ships, so that anyone can hold it to its numbers."""
    model = judge()
    model.load_state_dict({name: t.float() for name, t in load_file(BUNDLED).items()})
    return model.eval()


def bundle(folder: Path) -> None:
    """Keep the judge of a run beside this recipe."""
    state = torch.load(folder / "judge.pt", weights_only=True)
    save_file({name: t.half().contiguous() for name, t in state.items()}, BUNDLED)


def load_or_train(folder: Path, training: Digits, held_out: Digits) -> nn.Sequential:
    """The judge of a run, and how sure it is of real digits that it has not seen."""
    file = folder / "judge.pt"
    if not file.exists():
        torch.save(train(training).state_dict(), file)
    model = judge()
    model.load_state_dict(torch.load(file, weights_only=True))
    model.eval()
    right = (verdicts(model, coloured(held_out.pictures)) == held_out.labels).float().mean()
    print(f"judge: {float(right):.1%} of {len(held_out)} held-out real digits", flush=True)
    return model
