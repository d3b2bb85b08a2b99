"""Trains `tiny-var` on one CPU core: python -m weights.recipes.tiny_var.train --minutes 40

First the judge (a minute), then the VQ-VAE and its previews (a seventh of the budget), then the next-scale
model. Minutes are CPU minutes. Resumable: the run continues from the newest state in --out.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from streamgen.models.var import VAR
from streamgen.models.vqvae import VQVAE

from ..tiny_video.muon import Muon
from . import judge as judging
from .codec import CodecTrainer, PreviewTrainer, fidelity, tokens_of, vqvae
from .digits import Digits, coloured, load
from .evaluate import accuracy
from .model import BlockMask, loss, var

CODEC_SHARE, TIMES = 0.15, 6  # of the budget; how often each picture is coded, moved a little each time
BATCH, RATE = 48, 3e-3
SAVE_EVERY, TELL_EVERY = 240.0, 100  # seconds, steps


class Run:
    """One run on disk: the weights, their average, the optimizers, and how much of the budget is spent."""

    def __init__(self, out: Path, minutes: float) -> None:
        self.out, self.minutes, self.spent, self.step = out, minutes, 0.0, 0
        torch.manual_seed(0)
        self.model = var()
        matrices = [p for n, p in self.model.named_parameters() if is_matrix(n, p)]
        chosen = set(map(id, matrices))
        rest = [p for p in self.model.parameters() if id(p) not in chosen]
        self.optimizers = [
            Muon(matrices, RATE),
            torch.optim.AdamW(rest, RATE, betas=(0.9, 0.98), weight_decay=0.01),
        ]
        self.average = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        if (out / "state.pt").exists():
            self._resume()

    def _resume(self) -> None:
        state = torch.load(self.out / "state.pt", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.average, self.step, self.spent = state["average"], state["step"], state["spent"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(), "average": self.average, "step": self.step, "spent": self.spent,
            "optimizers": [o.state_dict() for o in self.optimizers],
        }  # fmt: skip
        torch.save(state, self.out / "state.tmp")
        (self.out / "state.tmp").replace(self.out / "state.pt")

    def averaged(self) -> VAR:
        model = var()
        model.load_state_dict(self.average)
        return model.requires_grad_(False).eval()

    def update(self, value: Tensor) -> None:
        part = self.spent / self.minutes
        rate = RATE * min(1.0, (self.step + 1) / 50) * (1.0 if part < 0.4 else max(0.03, (1 - part) / 0.6))
        value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        if self.step % 4 == 0:
            keep = min(0.98, self.step / (self.step + 40))
            for name, p in self.model.named_parameters():
                self.average[name].lerp_(p.detach(), 1 - keep)


def is_matrix(name: str, parameter: Tensor) -> bool:
    return name.startswith("blocks.") and parameter.ndim == 2 and "ada_lin" not in name


def codec(out: Path, training: Digits, held_out: Digits, minutes: float) -> VQVAE:
    """The trained VQ-VAE of the run."""
    coded, file = out / "codec.pt", out / "previews.pt"
    if not coded.exists():
        teach(CodecTrainer(training), minutes / 2, coded)
    model = vqvae()
    if not file.exists():
        model.load_state_dict(torch.load(coded, weights_only=True))
        teach(PreviewTrainer(model, training), minutes / 2, file)
    model.load_state_dict(torch.load(file, weights_only=True))
    print(f"codec: {fidelity(model, coloured(held_out.pictures))[1]:.2f} dB on held-out digits", flush=True)
    return model.requires_grad_(False).eval()


def teach(trainer: CodecTrainer | PreviewTrainer, minutes: float, file: Path) -> None:
    """Spend the minutes and keep what was learned."""
    rng, begin = torch.Generator().manual_seed(1), time.process_time()
    while (part := (time.process_time() - begin) / 60 / minutes) < 1:
        error = trainer.update(part, rng)
        if trainer.step % TELL_EVERY == 0:
            print(f"{file.stem} step {trainer.step}  {part * minutes:.1f} min  error {error:.4f}", flush=True)
    torch.save(trainer.model.state_dict(), file)


def train(run: Run, vae: VQVAE, digits: tuple[Tensor, Tensor], judge: nn.Module, compiled: bool) -> None:
    attend, rng = BlockMask(), torch.Generator().manual_seed(run.step + 1)
    if compiled:
        for block in run.model.layers:
            block.compile()
    begin, saved, losses = time.process_time() - 60 * run.spent, time.process_time(), []
    while run.spent < run.minutes:
        index = torch.randint(len(digits[0]), (BATCH,), generator=rng)
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(run.model, attend, vae.quantize, digits[0][index], digits[1][index], rng)
        run.update(value)
        losses.append(value.item())
        run.spent = (time.process_time() - begin) / 60
        if run.step % TELL_EVERY == 0:
            print(
                f"step {run.step}  {run.spent:.1f} min  loss {sum(losses[-100:]) / len(losses[-100:]):.4f}",
                flush=True,
            )
        if time.process_time() - saved > SAVE_EVERY:
            run.save()
            print(
                f"{accuracy(run.averaged(), vae, judge, 100):.0%} of 100 pictures are the digit asked for",
                flush=True,
            )
            saved = time.process_time()
    run.save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=40, help="CPU minutes over all runs into --out")
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-var"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--compile", action="store_true", help="compile the blocks; pays off after some 15 minutes"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    training, held_out = load(options.out)
    judge = judging.load_or_train(options.out, training, held_out)
    vae = codec(options.out, training, held_out, options.minutes * CODEC_SHARE)
    run = Run(options.out, options.minutes * (1 - CODEC_SHARE))
    digits = tokens_of(vae, training, TIMES, torch.Generator().manual_seed(2))
    train(run, vae, digits, judge, options.compile)


if __name__ == "__main__":
    main()
