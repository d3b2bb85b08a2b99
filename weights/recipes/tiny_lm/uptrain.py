"""Fewer key heads, and the training that makes up for them (GQA, 2305.13245: 5 % of the steps).

    python -m weights.recipes.tiny_lm.uptrain weights/tiny-lm --heads 1 --minutes 3 --out runs/tiny-lm-mqa

Prints how well questions are answered before conversion, after it, and after uptraining, and what a token
of keys and values takes.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

from streamgen.models.gqa import to_grouped_query
from streamgen.runtime.plan import dense_cache

from . import train
from .evaluate import accuracy, load
from .text import tokenizer

FACTS = 16


def report(what: str, net: Any) -> float:
    share, _ = accuracy(net, FACTS)
    c = net.config
    token = dense_cache(c.num_hidden_layers, c.num_key_value_heads, c.head_dim, 1, 1, net.dtype).nbytes
    print(f"{what}: {share:.3f} right, {token} bytes of keys and values a token", flush=True)
    return share


def uptrain(start: Any, heads: int, minutes: float, out: Path) -> Any:
    """The converted and uptrained model; everything is trained at the largest documents."""
    converted = to_grouped_query(start, heads)
    report(f"{heads} key heads", converted)
    run = train.Run("lm", out, minutes, start=separate(converted))
    run.most = train.SIZES[-1]
    run.train()
    for name, weight in run.net.named_parameters():
        weight.data.copy_(run.average[name])
    return run.net.eval()


def separate(net: Any) -> Any:
    """With weights of its own: a converted model shares what did not change."""
    for weight in net.parameters():
        weight.data = weight.data.clone()
    return net


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-lm-gqa"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = load(options.model)
    report(f"{start.config.num_key_value_heads} key heads", start)
    done = uptrain(start, options.heads, options.minutes, options.out)
    report(f"{options.heads} key heads, uptrained", done)
    done.save_pretrained(options.out / "model")
    tokenizer().save_pretrained(options.out / "model")


if __name__ == "__main__":
    main()
