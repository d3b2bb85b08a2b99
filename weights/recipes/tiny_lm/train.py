"""Trains `tiny-lm` or its draft on one CPU core.

    python -m weights.recipes.tiny_lm.train --kind lm --minutes 60 --out runs/tiny-lm
    python -m weights.recipes.tiny_lm.train --kind draft --minutes 10 --out runs/tiny-lm-draft

Documents grow from one fact to twenty-four. Resumable: the run continues from the newest state in --out.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ..tiny_video.muon import Muon
from .data import Batch, batch
from .model import model
from .text import Words

RATE = 3e-3
PHASES = ((0.0, 32, 3, 3), (0.2, 20, 10, 5), (0.5, 12, 24, 8))  # share of the budget, rows, facts, questions


def loss(net: nn.Module, data: Batch) -> tuple[Tensor, Tensor]:
    """Weighted cross entropy of the next tokens, and which answers are right, bool [answers]."""
    logits = net(input_ids=data.ids, use_cache=False).logits.float()
    each = nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), data.ids[:, 1:].flatten(), reduction="none"
    )
    weights = data.weights[:, :-1].flatten()
    right = (logits[:, :-1].argmax(-1) == data.ids[:, 1:])[data.answer[:, :-1]]
    return (each * weights).sum() / weights.sum(), right


class Run:
    """One run on disk: the weights, their average, the optimizers, and how much of the budget is spent."""

    def __init__(self, kind: str, out: Path, minutes: float, start: nn.Module | None = None) -> None:
        self.out, self.minutes, self.spent, self.step = out, minutes, 0.0, 0
        self.words, self.phases = Words(), PHASES
        torch.manual_seed(0)
        self.net = start or model(kind, len(self.words))
        self.net.requires_grad_(True).train()
        matrices = [p for n, p in self.net.named_parameters() if ".layers." in n and p.ndim == 2]
        chosen = set(map(id, matrices))
        rest = [p for p in self.net.parameters() if id(p) not in chosen]
        self.optimizers = [
            Muon(matrices, RATE),
            torch.optim.AdamW(rest, RATE, betas=(0.9, 0.98), weight_decay=0.01),
        ]
        self.average = {n: p.detach().clone() for n, p in self.net.named_parameters()}
        out.mkdir(parents=True, exist_ok=True)
        if (out / "state.pt").exists():
            self._resume()

    def _resume(self) -> None:
        state = torch.load(self.out / "state.pt", weights_only=True)
        self.net.load_state_dict(state["net"])
        self.average, self.step, self.spent = state["average"], state["step"], state["spent"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def save(self) -> None:
        state = {
            "net": self.net.state_dict(),
            "average": self.average,
            "step": self.step,
            "spent": self.spent,
            "optimizers": [o.state_dict() for o in self.optimizers],
        }
        torch.save(state, self.out / "state.tmp")
        (self.out / "state.tmp").replace(self.out / "state.pt")
        save_file(self.average, self.out / "average.safetensors")

    def sizes(self) -> tuple[int, int, int]:
        part = self.spent / self.minutes
        return [phase[1:] for phase in self.phases if phase[0] <= part][-1]

    def update(self, data: Batch) -> tuple[float, Tensor]:
        part = min(1.0, self.spent / self.minutes)
        rate = RATE * min(1.0, (self.step + 1) / 50) * (1.0 if part < 0.5 else max(0.03, (1 - part) / 0.5))
        with torch.autocast("cpu", torch.bfloat16):
            value, right = loss(self.net, data)
        value.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        for optimizer, share in zip(self.optimizers, (1.0, 0.5), strict=True):
            optimizer.param_groups[0]["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        keep = min(0.995, self.step / (self.step + 20))
        for name, p in self.net.named_parameters():
            self.average[name].lerp_(p.detach(), 1 - keep)
        return value.item(), right

    def train(self, report: float = 0.5) -> None:
        """Until the budget is spent; a line every `report` minutes and at the end."""
        rng = np.random.default_rng(self.step + 1)
        begin, saved, told = time.monotonic() - 60 * self.spent, time.monotonic(), self.spent
        losses: list[float] = []
        rights: list[bool] = []
        while self.spent < self.minutes:
            value, right = self.update(batch(self.words, *self.sizes(), rng))
            losses.append(value)
            rights += right.tolist()
            self.spent = (time.monotonic() - begin) / 60
            if self.spent - told > report or self.spent >= self.minutes:
                head = f"step {self.step}  {self.spent:.1f} min  facts {self.sizes()[1]}"
                print(f"{head}  loss {np.mean(losses):.3f}  right {np.mean(rights):.3f}", flush=True)
                told = self.spent
                losses.clear()
                rights.clear()
            if time.monotonic() - saved > 240:
                self.save()
                saved = time.monotonic()
        self.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("lm", "draft"), default="lm")
    parser.add_argument(
        "--minutes", type=float, default=60, help="budget in minutes, over all runs into --out"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-lm"))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    Run(options.kind, options.out, options.minutes).train()


if __name__ == "__main__":
    main()
