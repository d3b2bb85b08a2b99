"""Trains the hypernetwork that turns a document into an adapter of tiny-lm (Doc-to-LoRA, 2602.15902).

    python -m weights.recipes.tiny_lm.hyper weights/tiny-lm --minutes 60 --out runs/tiny-lm-documents

The model is frozen and reads each document; the same model with the adapter on answers questions without the
document, and is taught by itself with the document in the prompt, and by the right answers.
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
from streamgen.models.doc_lora_loading import save_doc_lora

from .data import closed_book
from .evaluate import SEED, accuracy, load
from .text import AFFIXES, PAD, Words, longest

RATE, L1 = 1e-3, 0.1
FACTS, QUESTIONS, ROWS = 8, 4, 16
RANK = 8


def network(model: Any) -> HyperNetwork:
    """A small one for this model: adapters of the last projection of every feed-forward."""
    c = model.config
    config = DocLoraConfig(
        layers=c.num_hidden_layers, width=c.hidden_size, latent=128, queries=16, encoder_layers=3,
        decoder_layers=1, mlps=1, rank=RANK, alpha=2 * RANK**1.5,
        targets=(Target("down_proj", c.intermediate_size, c.hidden_size),),
        heads=4, kv_heads=4, bias=True, head_dim=32,
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


def told(model: Any, turns: list[list[int]], ids: Tensor, answer: Tensor) -> Tensor:
    """What the model itself says with the document in the prompt: log-probabilities at every answer."""
    rows = []
    with torch.no_grad():
        for turn, row, due in zip(turns, ids, answer, strict=True):
            whole = torch.cat([torch.tensor(turn), row])[None]
            logits = model(input_ids=whole, use_cache=False).logits[0, len(turn) :]
            rows.append(logits[due].float().log_softmax(-1))
    return torch.cat(rows)


def loss(
    model: Any, net: HyperNetwork, data: tuple[list[list[int]], Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Distillation, the right words and the size of the factors; and which answers are right."""
    turns, ids, answer = data
    made = adapters(model, net, turns)
    with applied(model, made):
        logits = model(input_ids=ids, use_cache=False).logits.float()
    due, right = answer[:, :-1], ids[:, 1:]
    said = logits[:, :-1][due].log_softmax(-1)
    taught = told(model, turns, ids, answer).exp()
    value = -(taught * said).sum(-1).mean() + nn.functional.nll_loss(said, right[due])
    size = torch.stack([a.abs().mean() + b.abs().mean() for m in made for a, b in m.matrices().values()])
    return value + L1 * size.mean(), said.argmax(-1) == right[due]


@torch.no_grad()
def recall(model: Any, net: HyperNetwork, facts: int, documents: int = 200) -> float:
    """Share of questions about unseen documents that are answered right without them."""
    rng, words, right = np.random.default_rng(SEED + facts), Words(), []
    for _ in range(-(-documents // ROWS)):
        _, hits = loss(model, net, closed_book(words, ROWS, facts, QUESTIONS, rng))
        right += hits.tolist()
    return float(np.mean(right))


def train(model: Any, net: HyperNetwork, minutes: float, report: float = 1.0) -> None:
    """Until the budget is spent; documents grow with it."""
    words, rng = Words(), np.random.default_rng(1)
    optimizer = torch.optim.AdamW(net.parameters(), RATE, betas=(0.9, 0.98), weight_decay=0.01)
    begin, told_at, right = time.monotonic(), 0.0, []
    while (spent := (time.monotonic() - begin) / 60) < minutes:
        part = spent / minutes
        facts = 1 + round(min(1.0, part / 0.7) * (FACTS - 1))
        value, hits = loss(model, net, closed_book(words, ROWS, facts, QUESTIONS, rng))
        value.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, 20 * part, max(0.03, 2 * (1 - part)))
        optimizer.step()
        optimizer.zero_grad()
        right += hits.tolist()
        if spent - told_at > report:
            print(
                f"{spent:.1f} min  facts {facts}  loss {value.item():.3f}  right {np.mean(right):.3f}",
                flush=True,
            )
            told_at = spent
            right.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-lm-documents"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = load(options.model).requires_grad_(False)
    net = network(model)
    train(model, net, options.minutes)
    save_doc_lora(options.out, net.eval(), "tiny-lm", AFFIXES)
    for facts in (1, 4, FACTS):
        known, read = recall(model, net, facts), accuracy(model, facts)[0]
        print(
            f"up to {facts} facts: {known:.3f} right without the document, {read:.3f} with it in the prompt"
        )


if __name__ == "__main__":
    main()
