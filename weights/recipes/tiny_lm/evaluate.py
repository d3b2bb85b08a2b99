"""How well a tiny-lm answers about documents that it has never seen, and how often its draft is right.

python -m weights.recipes.tiny_lm.evaluate runs/tiny-lm/average.safetensors
python -m weights.recipes.tiny_lm.evaluate weights/tiny-lm --draft weights/tiny-lm-draft
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from .data import batch
from .model import model
from .text import END, Words

SEED = 10**6  # far from the seeds of training, which count up from 1
STORIES = 600  # one question about each: nothing is told by questions before it
SIZES = (1, 4, 8, 16, 24)  # most facts of a document


def load(path: Path, kind: str = "lm") -> Any:
    """A stock folder, or the weights that training saves."""
    if path.is_dir():
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    made = model(kind, len(Words()))
    made.load_state_dict(load_file(path), strict=False)
    made.tie_weights()
    return made.eval()


@torch.no_grad()
def accuracy(net: Any, facts: int, stories: int = STORIES) -> tuple[float, dict[str, float]]:
    """Share of questions answered right with the document in the prompt, in all and by relation."""
    rng, words = np.random.default_rng(SEED + facts), Words()
    right: dict[str, list[bool]] = {}
    for _ in range(-(-stories // 20)):
        data = batch(words, 20, facts, 1, rng)
        said = net(input_ids=data.ids, use_cache=False).logits[:, :-1].argmax(-1)
        hits = (said == data.ids[:, 1:])[data.answer[:, :-1]]
        for relation, hit in zip(data.relations, hits.tolist(), strict=True):
            right.setdefault(relation, []).append(hit)
    every = [hit for hits in right.values() for hit in hits]
    return float(np.mean(every)), {name: float(np.mean(hits)) for name, hits in sorted(right.items())}


@torch.no_grad()
def agreement(net: Any, draft: Any, stories: int = 200) -> float:
    """Share of the model's greedy next tokens that its draft would have proposed."""
    rng, words = np.random.default_rng(SEED), Words()
    same: list[float] = []
    for _ in range(-(-stories // 20)):
        data = batch(words, 20, 8, 3, rng)
        one, other = (m(input_ids=data.ids, use_cache=False).logits.argmax(-1) for m in (net, draft))
        counted = (data.weights > 0) & (data.ids != END)
        same += (one == other)[counted].float().tolist()
    return float(np.mean(same))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--draft", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    net = load(options.model)
    for facts in SIZES:
        share, relations = accuracy(net, facts)
        print(f"up to {facts} facts: {share:.3f}  {' '.join(f'{k} {v:.2f}' for k, v in relations.items())}")
    if options.draft is not None:
        print(f"the draft agrees: {agreement(net, load(options.draft, 'draft')):.3f}")


if __name__ == "__main__":
    main()
