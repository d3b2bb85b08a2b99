"""Writes what was trained as it is bundled: a stock folder with config, weights in bfloat16 and tokenizer.

    python -m weights.recipes.tiny_lm.export runs/tiny-lm/average.safetensors weights/tiny-lm
    python -m weights.recipes.tiny_lm.export runs/tiny-lm-documents weights/tiny-lm-documents --kind documents

The draft is written with --kind draft, the hypernetwork with --kind documents.
"""

import argparse
from pathlib import Path

from streamgen.models.doc_lora_loading import load_doc_lora, save_doc_lora

from .evaluate import load
from .text import AFFIXES, tokenizer


def export(weights: Path, folder: Path, kind: str = "lm") -> None:
    if kind == "documents":
        save_doc_lora(folder, load_doc_lora(weights).network.bfloat16(), "tiny-lm", AFFIXES)
    else:
        load(weights, kind).bfloat16().save_pretrained(folder)
        tokenizer().save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=("lm", "draft", "documents"), default="lm")
    options = parser.parse_args()
    export(options.weights, options.folder, options.kind)


if __name__ == "__main__":
    main()
