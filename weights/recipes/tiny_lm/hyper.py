"""Trains the hypernetwork that turns a document into an adapter of tiny-lm (Doc-to-LoRA, 2602.15902).

    python -m weights.recipes.tiny_lm.hyper weights/tiny-lm --minutes 30 --out runs/tiny-lm-documents
    python -m weights.recipes.tiny_lm.hyper weights/tiny-lm --evaluate weights/tiny-lm-documents

The model is frozen and reads each document; the same model with the adapter on answers questions without the
document. The right answers teach it: of facts that a program made up they are known, so no teacher has to
say them. Documents grow whenever the questions about those of the present size are answered.
Shapes: B documents, S tokens of the longest, N tokens of the longest questions, L layers.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from streamgen.models.doc_lora import DocLoraConfig, HyperNetwork, Target
from streamgen.models.doc_lora_adapter import Adapter
from streamgen.models.doc_lora_apply import applied
from streamgen.models.doc_lora_encoder import features
from streamgen.models.doc_lora_loading import load_doc_lora, save_doc_lora
from streamgen.runtime.plan import dense_cache

from ..tiny_video.muon import Muon
from .data import STOP, closed_book
from .evaluate import SEED, accuracy, load
from .text import AFFIXES, END, PAD, Words, longest

RATE, L1 = 2e-3, 0.01
SIZES = (2, 3, 4, 6, 8)  # most facts of a document
KNOWN = 0.9  # share of right answers at which documents grow
QUESTIONS, ROWS = 4, 48
RANK = 16

Questions = tuple[list[list[int]], Tensor, Tensor]


def network(model: Any) -> HyperNetwork:
    """A small one for this model: adapters of the last projection of every feed-forward."""
    c = model.config
    config = DocLoraConfig(
        layers=c.num_hidden_layers, width=c.hidden_size, latent=128, queries=16, encoder_layers=2,
        decoder_layers=1, mlps=1, rank=RANK, alpha=2 * RANK**1.5,
        targets=(Target("down_proj", c.intermediate_size, c.hidden_size),),
        heads=4, kv_heads=4, bias=False, head_dim=32,
    )  # fmt: skip
    return HyperNetwork(config)


def adapters(model: Any, net: HyperNetwork, turns: list[list[int]]) -> list[Adapter]:
    """One for each document, each read in one piece."""
    size = longest(turns)
    ids = torch.tensor([[*turn, *[PAD] * (size - len(turn))] for turn in turns])
    mask = ids != PAD
    with torch.no_grad():
        heard = torch.stack(features(model, ids, mask), 1)
    factors = net.factors(net.latents(heard, mask))
    return [
        net.combine({name: (a[row : row + 1], b[row : row + 1]) for name, (a, b) in factors.items()})
        for row in range(len(turns))
    ]


def loss(model: Any, net: HyperNetwork, data: Questions) -> tuple[Tensor, Tensor]:
    """Of the right words, their ends and the size of the factors; and which answers are right."""
    turns, ids, answer = data
    made = adapters(model, net, turns)
    with applied(model, made):
        logits = model(input_ids=ids, use_cache=False).logits.float()
    due, right = answer[:, :-1], ids[:, 1:]
    said = logits[:, :-1][due]
    size = torch.stack([a.abs().mean() + b.abs().mean() for m in made for a, b in m.matrices().values()])
    ended = nn.functional.cross_entropy(logits[:, 1:][due], torch.full((len(said),), END))
    value = nn.functional.cross_entropy(said, right[due]) + STOP * ended + L1 * size.mean()
    return value, said.argmax(-1) == right[due]


@torch.no_grad()
def recall(model: Any, net: HyperNetwork, facts: int, documents: int = 600, least: int = 1) -> float:
    """Share of unseen documents about which a question is answered right without them."""
    rng, words, right = np.random.default_rng(SEED + facts), Words(), []
    for _ in range(-(-documents // ROWS)):
        _, hits = loss(model, net, closed_book(words, ROWS, facts, 1, rng, least))
        right += hits.tolist()
    return float(np.mean(right))


def optimizers(net: HyperNetwork) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the Perceiver, AdamW for all else."""
    matrices = [p for name, p in net.aggregator.named_parameters() if p.ndim == 2 and "latents_q" not in name]
    chosen = set(map(id, matrices))
    rest = [p for p in net.parameters() if id(p) not in chosen]
    return [Muon(matrices, RATE), torch.optim.AdamW(rest, RATE, betas=(0.9, 0.98), weight_decay=0.01)]


class Run:
    """One run: the network, the average of its weights, and the size of documents."""

    def __init__(
        self, model: Any, net: HyperNetwork, out: Path, minutes: float, rate: float, most: int
    ) -> None:
        self.model, self.net, self.out, self.minutes, self.rate = model, net, out, minutes, rate
        self.optimizers, self.most, self.step = optimizers(net), most, 0
        self.average = {name: p.detach().clone() for name, p in net.named_parameters()}

    def update(self, data: Questions, part: float) -> tuple[float, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            value, hits = loss(self.model, self.net, data)
        value.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        rate = self.rate * min(1.0, (self.step + 1) / 50, max(0.03, 2.5 * (1 - part)))
        for optimizer in self.optimizers:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        keep = min(0.99, self.step / (self.step + 20))
        for name, p in self.net.named_parameters():
            self.average[name].lerp_(p.detach(), 1 - keep)
        return value.item(), hits

    def train(self, report: float = 0.5) -> None:
        """Until the budget is spent; a line every `report` minutes."""
        words, rng = Words(), np.random.default_rng(1)
        begin, told, losses, rights = time.monotonic(), 0.0, [], []
        while (spent := (time.monotonic() - begin) / 60) < self.minutes:
            data = closed_book(words, ROWS, self.most, QUESTIONS, rng)
            value, hits = self.update(data, spent / self.minutes)
            losses.append(value)
            rights += hits.tolist()
            if spent - told > report:
                head = f"step {self.step}  {spent:.1f} min  facts {self.most}"
                print(f"{head}  loss {np.mean(losses):.3f}  right {np.mean(rights):.3f}", flush=True)
                larger = [size for size in SIZES if size > self.most]
                if larger and np.mean(rights) > KNOWN:
                    self.most = larger[0]
                told, losses, rights = spent, [], []
                self.save()

    def save(self) -> HyperNetwork:
        """Write the average, and return it."""
        made = HyperNetwork(self.net.config)
        made.load_state_dict(self.average)
        save_doc_lora(self.out, made, "tiny-lm", AFFIXES)
        return made.eval()


@torch.no_grad()
def report(model: Any, net: HyperNetwork, facts: int) -> str:
    """How much is known and what it takes, with the document as an adapter and in the prompt."""
    rng, words, c = np.random.default_rng(SEED + facts), Words(), model.config
    turns, _, _ = closed_book(words, 200, facts, QUESTIONS, rng)
    tokens = round(float(np.mean([len(turn) for turn in turns])))
    pages = dense_cache(c.num_hidden_layers, c.num_key_value_heads, c.head_dim, tokens, 1, torch.float32)
    known, full, read = (
        recall(model, net, facts),
        recall(model, net, facts, least=facts),
        accuracy(model, facts)[0],
    )
    adapter = adapters(model, net, turns[:1])[0].nbytes
    return (
        f"up to {facts} facts, {tokens} tokens: {known:.3f} right without the document, {full:.3f} "
        f"where there are exactly {facts}, an adapter of {adapter} bytes; {read:.3f} with it in the prompt, "
        f"{pages.nbytes} bytes of keys and values"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-lm-documents"))
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--start", type=Path, default=None, help="a hypernetwork to go on from")
    parser.add_argument("--evaluate", type=Path, default=None, help="a hypernetwork to measure only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = load(options.model).requires_grad_(False)
    model.config._attn_implementation = "eager"  # on short rows, backward is twice as fast as sdpa's
    start = options.evaluate or options.start
    net = network(model) if start is None else load_doc_lora(start).network
    if options.evaluate is None:
        most = SIZES[0] if options.start is None else SIZES[-1]
        net.requires_grad_(True).train()
        run = Run(model, net, options.out, options.minutes, options.rate, most)
        run.train()
        net = run.save()
    for facts in (1, *SIZES, 12):
        print(report(model, net.eval(), facts), flush=True)


if __name__ == "__main__":
    main()
