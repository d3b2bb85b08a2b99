"""Trains `tiny-vlm` on one CPU core.

    python -m weights.recipes.tiny_vlm.train --minutes 65 --out runs/tiny-vlm

First the eyes, then what can be told from one frame, then longer and longer stories; in the last phases
the old tokens of some stories are thinned out and the positions have gaps, as a memory leaves them.
Resumable: the run continues from the newest state in --out.
"""

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ..tiny_video.muon import Muon
from .eyes import sights, whiten
from .model import embed, hidden, look, model
from .pack import Batch, Packer, Plan
from .questions import NOW, WORDINGS
from .reader import Reader
from .text import tokenizer

RATE, EYES = 3e-3, 300
ALL = tuple(WORDINGS)
PHASES = (  # from which share of the budget on, at the latest
    (0.0, Plan(48, 2, 44, NOW)),
    (0.1, Plan(16, 8, 152, ALL)),
    (0.22, Plan(10, 16, 200, ALL, stretch=0.3)),
    (0.4, Plan(6, 32, 232, ALL, forget=0.2, stretch=0.4)),
    (0.6, Plan(5, 48, 264, ALL, forget=0.35, stretch=0.4)),
)


def loss(net: nn.Module, reader: Reader, data: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Cross entropy of answers and their ends; that of the reader; and which answers are right, bool [Q]."""
    video = look(net, data.frames)
    states = hidden(net, embed(net, data.ids, video, data.start), data.positions, data.mask)
    story, place = data.place.unbind(1)
    said = net.lm_head(states[story, place]).float()
    ends = net.lm_head(states[story, place + 1]).float()
    value = nn.functional.cross_entropy(said, data.answers)
    value = value + 0.05 * nn.functional.cross_entropy(ends, data.ids[story, place + 2])
    return value, reader(video, data.shown), said.argmax(-1) == data.answers


class Run:
    """One run on disk: the weights, their average, the optimizers, and how much of the budget is spent."""

    def __init__(self, out: Path, minutes: float) -> None:
        self.out, self.minutes, self.spent = out, minutes, 0.0
        self.step = self.phase = 0
        self.tokens = tokenizer()
        self.packer = Packer(self.tokens)
        torch.manual_seed(0)
        self.net = model(len(self.tokens))
        matrices = [p for n, p in self.net.named_parameters() if ".layers." in n and p.ndim == 2]
        chosen = set(map(id, matrices))
        rest = [p for p in self.net.parameters() if id(p) not in chosen]
        self.optimizers = [
            Muon(matrices, RATE),
            torch.optim.AdamW(rest, RATE, betas=(0.9, 0.98), weight_decay=0.01),
        ]
        self.reader = Reader(self.net.config.text_config.hidden_size)
        self.optimizers.append(torch.optim.AdamW(self.reader.parameters(), RATE, weight_decay=0.01))
        self.average = {n: p.detach().clone() for n, p in self.net.named_parameters()}
        out.mkdir(parents=True, exist_ok=True)
        if (out / "state.pt").exists():
            self._resume()

    def _resume(self) -> None:
        state = torch.load(self.out / "state.pt", weights_only=True)
        self.net.load_state_dict(state["net"])
        self.reader.load_state_dict(state["reader"])
        self.average, self.spent = state["average"], state["spent"]
        self.step, self.phase = state["step"], state["phase"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def save(self) -> None:
        state = {
            "net": self.net.state_dict(),
            "reader": self.reader.state_dict(),
            "average": self.average,
            "step": self.step,
            "phase": self.phase,
            "spent": self.spent,
            "optimizers": [o.state_dict() for o in self.optimizers],
        }
        torch.save(state, self.out / "state.tmp")
        (self.out / "state.tmp").replace(self.out / "state.pt")
        save_file(self.average, self.out / "average.safetensors")

    def open_eyes(self, rng: np.random.Generator) -> None:
        """Train the vision tower alone, to say what frames show."""
        whiten(self.net, sights(100, 4, rng)[0])
        for step in range(EYES):
            frames, shown = sights(16, 4, rng)
            with torch.autocast("cpu", torch.bfloat16):
                read = self.reader(look(self.net, frames), shown)
            read.backward()
            self._descend(RATE * min(1.0, (step + 1) / 30))
            if step % 50 == 49:
                print(f"eyes {step + 1}  read {read.item():.3f}", flush=True)

    def _descend(self, rate: float) -> None:
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        for optimizer, share in zip(self.optimizers, (1.0, 0.5, 0.5), strict=True):
            optimizer.param_groups[0]["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()

    def plan(self) -> Plan:
        due = sum(begin <= self.spent / self.minutes for begin, _ in PHASES) - 1
        self.phase = max(self.phase, due)
        return PHASES[self.phase][1]

    def passed(self, worst: float) -> None:
        """The next phase begins early where the worst kind of question is answered well."""
        if worst > 0.97 and self.phase < len(PHASES) - 1:
            self.phase += 1

    def update(self, data: Batch) -> tuple[float, float, Tensor]:
        part = self.spent / self.minutes
        rate = RATE * min(1.0, (self.step + 1) / 50) * (1.0 if part < 0.5 else max(0.03, (1 - part) / 0.5))
        with torch.autocast("cpu", torch.bfloat16):
            value, read, right = loss(self.net, self.reader, data)
        (value + 0.5 * read).backward()
        self._descend(rate)
        self.step += 1
        if self.step % 4 == 0:
            keep = min(0.98, self.step / (self.step + 40))
            for name, p in self.net.named_parameters():
                self.average[name].lerp_(p.detach(), 1 - keep)
        return value.item(), read.item(), right


class Tally:
    """Shares of right answers by kind, since the last report."""

    def __init__(self) -> None:
        self.right: dict[str, list[bool]] = defaultdict(list)

    def add(self, kinds: list[str], right: Tensor) -> None:
        for kind, one in zip(kinds, right.tolist(), strict=True):
            self.right[kind].append(one)

    def report(self) -> tuple[str, float]:
        """In words, and the worst kind."""
        shares = {k: float(np.mean(self.right[k])) for k in ALL if k in self.right}
        self.right.clear()
        return "  ".join(f"{k} {share:.2f}" for k, share in shares.items()), min(shares.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=65, help="budget in minutes, over all runs into --out"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-vlm"))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch._dynamo.config.recompile_limit = 64
    run, tally = Run(options.out, options.minutes), Tally()
    for block in (*run.net.model.language_model.layers, *run.net.model.vision_tower.encoder.layers):
        block.compile(dynamic=False)
    numbers = np.random.default_rng(run.step + 1)
    begin, saved, losses = time.monotonic() - 60 * run.spent, time.monotonic(), []
    if run.step == 0:
        run.open_eyes(numbers)
    while run.spent < run.minutes:
        data = run.packer.batch(run.plan(), numbers)
        value, read, right = run.update(data)
        losses.append((value, read))
        tally.add(data.kinds, right)
        run.spent = (time.monotonic() - begin) / 60
        if run.step % 50 == 0:
            (value, seen), (line, worst) = np.mean(losses, 0), tally.report()
            head = f"step {run.step}  {run.spent:.1f} min  T {run.plan().frames}"
            print(f"{head}  loss {value:.3f}  read {seen:.3f}  {line}", flush=True)
            run.passed(worst)
            losses.clear()
        if time.monotonic() - saved > 240:
            run.save()
            saved = time.monotonic()
    run.save()


if __name__ == "__main__":
    main()
