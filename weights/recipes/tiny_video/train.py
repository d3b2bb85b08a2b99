"""Trains `tiny-video` on one CPU core.

    python -m weights.recipes.tiny_video.train --minutes 105 --out runs/tiny-video

Teacher forcing on short clips, x0 prediction, and in the second half the model's own predictions as
history, so that it learns to mend its own errors. Resumable: the run continues from the newest state in
--out.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from ..world.looks import BIOMES, TIMES, WEATHERS
from ..world.prompts import Scene, describe, scenes
from ..world.scene import STEPS, render
from ..world.sprites import COATS
from .codec import Linear, fit
from .data import SHOWN, Batch, batch
from .model import CHANNELS, past, predict, teach, transformer
from .muon import Muon
from .text import LENGTH, encoder, tokenizer

FRAMES, CLIPS, RATE = 12, 4, 3e-3
TEXTURE = 0.2  # the typical step between neighbouring latent cells


class Student(nn.Module):
    """Everything that learns: the video model and its text encoder."""

    def __init__(self, words: int, actions: int = 0) -> None:
        super().__init__()
        self.video = teach(transformer(actions))
        self.text = encoder(words)

    def rows(self, tokens: PreTrainedTokenizerBase, words: list[str]) -> Tensor:
        ids = tokens(words, padding="max_length", max_length=LENGTH, return_tensors="pt")
        out = self.text(**{k: ids[k] for k in ("input_ids", "attention_mask")}).last_hidden_state
        return out * ids["attention_mask"][..., None]


class Reader(nn.Module):
    """Asks the text rows for every attribute, so that the encoder learns words from many more prompts than
    clips."""

    def __init__(self) -> None:
        super().__init__()
        self.choices = [BIOMES, TIMES, WEATHERS, tuple(COATS), tuple(STEPS)]
        self.heads = nn.ModuleList(nn.Linear(64, len(choice)) for choice in self.choices)

    def forward(self, rows: Tensor, asked: list[Scene]) -> Tensor:
        """Cross entropy of the attributes of `asked`, from the mean of rows [P, M, 64]."""
        said = [(s.look.biome, s.look.time, s.look.weather, s.look.coat, s.walk) for s in asked]
        losses = []
        for i, (head, choice) in enumerate(zip(self.heads, self.choices, strict=True)):
            answer = torch.tensor([choice.index(attributes[i]) for attributes in said])
            losses.append(nn.functional.cross_entropy(head(rows.mean(1)), answer))
        return torch.stack(losses).mean()


def first_codec(rng: np.random.Generator) -> Linear:
    """The codec sees every look twice: at the start and after some steps."""
    shots = [render(s.look, [s.walk] * 5, int(rng.integers(1 << 30)))[[0, 5]] for s in scenes()]
    return fit(torch.from_numpy(np.concatenate(shots)), CHANNELS)


def draw_times(alone: Tensor, rng: torch.Generator, pure: float = 1 / 6) -> Tensor:
    """Noise levels [B, F] in (0, 1]: shift 3, and a share of pure noise, as every chunk begins.

    That share is larger where only the words can tell what is to come.
    """
    u = torch.rand(len(alone), FRAMES, generator=rng) * 0.95 + 0.05
    t = 3 * u / (1 + 2 * u)
    share = torch.where(alone, 0.4, pure)[:, None]
    return torch.where(torch.rand(t.shape, generator=rng) < share, 1.0, t)


def weight(data: Batch, t: Tensor) -> Tensor:
    """Loss weights [B, F, h, w]: more for the strip that comes into view; none where a clip's past is cut
    short."""
    w = (1 / t.clamp_min(0.2))[..., None, None].expand(-1, -1, 16, 16).clone()
    down, right = data.fresh.unbind(-1)
    w[:, :, -1:] *= torch.where(down > 0, 3.0, 1.0)[..., None, None]
    w[:, :, :1] *= torch.where(down < 0, 3.0, 1.0)[..., None, None]
    w[..., -1:] *= torch.where(right > 0, 3.0, 1.0)[..., None, None]
    w[..., :1] *= torch.where(right < 0, 3.0, 1.0)[..., None, None]
    w[:, :, 5:11, 6:10] *= torch.where(data.alone, 6.0, 2.0)[:, None, None, None]  # the hero
    w[data.late, :4] = 0
    if data.lost is not None:
        w[data.lost] = 0
    return w


def loss(
    student: Student,
    codec: Linear,
    tokens: PreTrainedTokenizerBase,
    data: Batch,
    own: int,
    rng: torch.Generator,
    pure: float = 1 / 6,
    even: bool = False,
) -> Tensor:
    """The weighted error of x0; `own` times over, the history becomes the model's own prediction.

    `even`: the ground's texture is faint at night and in fog; there it counts more, and the noise of the
    history, which would drown it, is as faint.
    """
    x0 = codec.latents(data.frames)
    t = draw_times(data.alone, rng, pure)
    view = past(student.video, data.late, data.alone, FRAMES)
    rows = student.rows(tokens, data.words)
    level = torch.rand(t.shape, generator=rng) * 0.2 * (torch.rand(t.shape, generator=rng) < 0.8)
    texture = (x0[..., 1:] - x0[..., :-1]).abs().flatten(2).median(-1).values  # [B, F]
    if even:
        level = level * (texture / TEXTURE).clamp(0.1, 1)
    history = x0 + level[..., None, None, None] * torch.randn(x0.shape, generator=rng)
    prompt = torch.stack((data.prompt if data.heard is None else data.heard, data.prompt))
    for _ in range(own):
        with torch.no_grad():
            start = draw_times(data.alone, rng, pure)
            noisy = _noised(x0, start, rng)
            made = predict(student.video, history, noisy, start, rows, prompt, view, data.acts)
        swap = torch.rand(t.shape, generator=rng) < 0.75
        swap[data.late, 0] = False
        history = torch.where(swap[..., None, None, None], made, history)
    guess = predict(student.video, history, _noised(x0, t, rng), t, rows, prompt, view, data.acts)
    w = weight(data, t)[:, :, None]
    if even:
        w = w * (TEXTURE / texture.clamp_min(1e-3)).clamp(0.5, 6)[..., None, None, None]
    return ((guess - x0) ** 2 * w).sum() / (w.sum() * CHANNELS)


def _noised(x0: Tensor, t: Tensor, rng: torch.Generator) -> Tensor:
    t = t[..., None, None, None]
    return (1 - t) * x0 + t * torch.randn(x0.shape, generator=rng)


class Run:
    """One run on disk: the weights, their average, the optimizers, and how much of the budget is spent."""

    actions = 0

    def __init__(self, out: Path, minutes: float) -> None:
        self.out, self.minutes, self.spent, self.step = out, minutes, 0.0, 0
        self.tokens = tokenizer()
        torch.manual_seed(0)
        self.student = Student(len(self.tokens), self.actions)
        self.begin()
        matrices = [
            p for n, p in self.student.video.named_parameters() if n.startswith("blocks.") and p.ndim == 2
        ]
        chosen = set(map(id, matrices))
        rest = [p for p in self.student.parameters() if id(p) not in chosen]
        self.optimizers = [
            Muon(matrices, RATE),
            torch.optim.AdamW(rest, RATE, betas=(0.9, 0.98), weight_decay=0.01),
        ]
        self.reader = Reader()  # serves the training only: it is not kept
        self.optimizers.append(torch.optim.AdamW(self.reader.parameters(), RATE))
        self.average = {n: p.detach().clone() for n, p in self.student.named_parameters()}
        out.mkdir(parents=True, exist_ok=True)
        self.codec = self._codec()
        if (out / "state.pt").exists():
            self._resume()

    def begin(self) -> None:
        """Give the fresh student what it starts from."""

    def draw(self, numbers: np.random.Generator) -> Batch:
        """Clips for one step."""
        return batch(CLIPS, FRAMES, numbers)

    def value(self, data: Batch, rng: torch.Generator) -> Tensor:
        """The loss of one step."""
        own = self.spent > 0.35 * self.minutes and self.step % 2 == 0
        return loss(self.student, self.codec, self.tokens, data, int(own), rng)

    def _codec(self) -> Linear:
        file = self.out / "codec.safetensors"
        if not file.exists():
            codec = first_codec(np.random.default_rng(0))
            save_file({"mean": codec.mean, "encode": codec.encode, "decode": codec.decode.contiguous()}, file)
        return Linear(**load_file(file))

    def _resume(self) -> None:
        state = torch.load(self.out / "state.pt", weights_only=True)
        self.student.load_state_dict(state["student"])
        self.average, self.step, self.spent = state["average"], state["step"], state["spent"]
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=False):
            optimizer.load_state_dict(saved)

    def save(self) -> None:
        state = {
            "student": self.student.state_dict(),
            "average": self.average,
            "step": self.step,
            "spent": self.spent,
            "optimizers": [o.state_dict() for o in self.optimizers],
        }
        torch.save(state, self.out / "state.tmp")
        (self.out / "state.tmp").replace(self.out / "state.pt")
        save_file(self.average, self.out / "average.safetensors")

    def read(self, rng: torch.Generator, prompts: int = 48) -> Tensor:
        """The reader's loss on fresh prompts."""
        asked = [SHOWN[int(i)] for i in torch.randint(len(SHOWN), (prompts,), generator=rng)]
        words = np.random.default_rng(int(torch.randint(1 << 30, (1,), generator=rng)))
        return self.reader(self.student.rows(self.tokens, [describe(scene, words) for scene in asked]), asked)

    def update(self, data: Batch, rng: torch.Generator) -> float:
        part = self.spent / self.minutes
        rate = RATE * min(1.0, (self.step + 1) / 50) * (1.0 if part < 0.45 else max(0.04, (1 - part) / 0.55))
        with torch.autocast("cpu", torch.bfloat16):
            value = self.value(data, rng)
        (value + 0.05 * self.read(rng)).backward()
        nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
        for optimizer, share in zip(self.optimizers, (1.0, 0.5, 1.0), strict=True):
            optimizer.param_groups[0]["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        if self.step % 4 == 0:
            keep = min(0.98, self.step / (self.step + 40))
            for name, p in self.student.named_parameters():
                self.average[name].lerp_(p.detach(), 1 - keep)
        return value.item()


def options(about: str | None, out: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--minutes", type=float, default=90, help="budget in minutes, over all runs into --out"
    )
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--threads", type=int, default=1)
    return parser


def train(run: Run, threads: int) -> None:
    """Spend what is left of the budget."""
    torch.set_num_threads(threads)
    for block in run.student.video.blocks:
        block.compile()
    numbers, rng = np.random.default_rng(run.step + 1), torch.Generator().manual_seed(run.step + 1)
    begin, saved, losses = time.monotonic() - 60 * run.spent, time.monotonic(), []
    while run.spent < run.minutes:
        losses.append(run.update(run.draw(numbers), rng))
        run.spent = (time.monotonic() - begin) / 60
        if run.step % 20 == 0:
            read = run.read(rng).item()
            print(
                f"step {run.step}  {run.spent:.1f} min  loss {np.mean(losses[-20:]):.4f}  read {read:.3f}",
                flush=True,
            )
        if time.monotonic() - saved > 240:
            run.save()
            saved = time.monotonic()
    run.save()


def main() -> None:
    asked = options(__doc__, "runs/tiny-video").parse_args()
    train(Run(asked.out, asked.minutes), asked.threads)


if __name__ == "__main__":
    main()
