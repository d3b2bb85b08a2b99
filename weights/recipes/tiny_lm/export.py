"""Writes a trained model as a stock folder: config, weights in bfloat16 and tokenizer.

python -m weights.recipes.tiny_lm.export runs/tiny-lm/average.safetensors weights/tiny-lm

The draft is written with --kind draft.
"""

import argparse
from pathlib import Path

from .evaluate import load
from .text import tokenizer


def export(weights: Path, folder: Path, kind: str = "lm") -> None:
    load(weights, kind).bfloat16().save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=("lm", "draft"), default="lm")
    options = parser.parse_args()
    export(options.weights, options.folder, options.kind)


if __name__ == "__main__":
    main()
