"""Trains `tiny-lm` or its draft on one CPU core.

    python -m weights.recipes.tiny_lm.train --kind lm --minutes 60 --out runs/tiny-lm
    python -m weights.recipes.tiny_lm.train --kind draft --teacher weights/tiny-lm --out runs/draft

Documents grow from four facts to twenty-four, whenever the questions about those of the present size are
answered. Attention is shown where to look, or it takes very long to find out (`LOOK`). Resumable: the run
continues from the newest state in --out.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from ..tiny_video.muon import Muon
from .data import Batch, batch
from .model import model
from .text import Words

RATE = 3e-3
SIZES = (4, 8, 16, 24)  # most facts of a document
KNOWN = 0.93  # share of right answers at which documents grow
FOLLOW = 0.2  # weight of a token that is no answer, for a draft
LOOK = 0.3  # weight of looking where the answer is
TOKENS = 4400  # of a batch, about


def mixed(words: Words, most: int, rng: np.random.Generator) -> Batch:
    """Stories of about the same size, and up to `most` facts; few lack their document."""
    facts = int(rng.integers(2, most + 1))
    questions = min(facts + 1, 8)
    rows = TOKENS // (25 + 7 * facts + 9 * questions)
    return batch(words, rows, facts, questions, rng, least=facts - 1, blind=rows // 16)


def follow(data: Batch, teacher: nn.Module) -> Batch:
    """The same stories, in which every token is followed by what the teacher would write."""
    with torch.no_grad():
        written = teacher(input_ids=data.ids, use_cache=False).logits.argmax(-1)
    weights = data.weights.clamp_min(FOLLOW) * (data.weights > 0)
    return replace(data, next=torch.where(data.answer, data.next, written), weights=weights)


def loss(net: nn.Module, data: Batch) -> tuple[Tensor, Tensor]:
    """Cross entropy of the next tokens and of where to look; which answers are right, bool [answers]."""
    out = net(input_ids=data.ids, use_cache=False, output_attentions=True)
    logits = out.logits.float()
    each = nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), data.next[:, :-1].flatten(), reduction="none"
    )
    weights = data.weights[:, :-1].flatten()
    right = (logits[:, :-1].argmax(-1) == data.ids[:, 1:])[data.answer[:, :-1]]
    middle = len(out.attentions) // 2 - 1
    row, layer, head, here, there = data.looks.unbind(1)
    seen = torch.stack(out.attentions[middle : middle + 2])[layer, row, head, here, there]
    missed = -seen.float().clamp_min(1e-5).log().mean()
    return (each * weights).sum() / weights.sum() + LOOK * missed, right


class Run:
    """One run on disk: the weights, their average, the optimizers, and how much of the budget is spent."""

    def __init__(
        self,
        kind: str,
        out: Path,
        minutes: float,
        start: nn.Module | None = None,
        teacher: nn.Module | None = None,
    ) -> None:
        self.teacher = teacher
        self.out, self.minutes, self.spent, self.step = out, minutes, 0.0, 0
        self.words, self.most = Words(), SIZES[0]
        torch.manual_seed(0)
        self.net = start or model(kind, len(self.words))
        self.net.requires_grad_(True).train()
        self.net.config._attn_implementation = "eager"  # on short rows, backward is twice as fast as sdpa's
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
        self.most = state["most"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def save(self) -> None:
        state = {
            "net": self.net.state_dict(),
            "average": self.average,
            "step": self.step,
            "spent": self.spent,
            "most": self.most,
            "optimizers": [o.state_dict() for o in self.optimizers],
        }
        torch.save(state, self.out / "state.tmp")
        (self.out / "state.tmp").replace(self.out / "state.pt")
        save_file(self.average, self.out / "average.safetensors")

    def grow(self, right: float) -> None:
        """The next size of documents, if those of the present one are known."""
        larger = [size for size in SIZES if size > self.most]
        if larger and right > KNOWN:
            self.most = larger[0]

    def update(self, data: Batch) -> tuple[float, Tensor]:
        part = min(1.0, self.spent / self.minutes)
        rate = RATE * min(1.0, (self.step + 1) / 50) * (1.0 if part < 0.5 else max(0.03, (1 - part) / 0.5))
        with torch.autocast("cpu", torch.bfloat16):
            value, right = loss(self.net, follow(data, self.teacher) if self.teacher else data)
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

    def train(self, report: float = 0.25) -> None:
        """Until the budget is spent; a line every `report` minutes and at the end."""
        rng = np.random.default_rng(self.step + 1)
        begin, saved, told = time.monotonic() - 60 * self.spent, time.monotonic(), self.spent
        losses: list[float] = []
        rights: list[bool] = []
        while self.spent < self.minutes:
            value, right = self.update(mixed(self.words, self.most, rng))
            losses.append(value)
            rights += right.tolist()
            self.spent = (time.monotonic() - begin) / 60
            if self.spent - told > report or self.spent >= self.minutes:
                head = f"step {self.step}  {self.spent:.1f} min  facts {self.most}"
                print(f"{head}  loss {np.mean(losses):.3f}  right {np.mean(rights):.3f}", flush=True)
                self.grow(float(np.mean(rights)))
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
    parser.add_argument("--teacher", type=Path, default=None, help="a folder; what a draft is to write like")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    teacher = None
    if options.teacher is not None:
        teacher = AutoModelForCausalLM.from_pretrained(options.teacher, dtype=torch.float32).eval()
    Run(options.kind, options.out, options.minutes, teacher=teacher).train()


if __name__ == "__main__":
    main()
