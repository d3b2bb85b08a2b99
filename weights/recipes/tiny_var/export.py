"""Writes a trained run as the checkpoint folder weights/tiny-var: python -m weights.recipes.tiny_var.export

Afterwards `python -m weights.recipes.register tiny-var` writes the sums into the registry.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from . import judge as judging
from .codec import PATCHES
from .digits import CLASSES
from .evaluate import DEMO, settings

LEVELS = torch.cat([torch.full((side * side,), scale) for scale, side in enumerate(PATCHES)])[None]


def export(run: Path, to: Path) -> None:
    average = torch.load(run / "state.pt", weights_only=True)["average"]
    codec = torch.load(run / "codec.pt", weights_only=True)
    # The published layout: lvl_1L says how the tokens are cut into scales.
    write(to / "transformer" / "model.safetensors", {**halved(average), "lvl_1L": LEVELS})
    write(to / "vae" / "model.safetensors", codec)
    facts = {
        "pipeline": "image",
        "classes": [str(digit) for digit in range(CLASSES)],
        "presets": {name: vars(how) for name, how in settings(DEMO).presets.items()},
    }
    (to / "streamgen.json").write_text(json.dumps(facts, indent=1) + "\n")


def halved(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(torch.bfloat16) for name, tensor in state.items()}


def write(path: Path, state: dict[str, Tensor]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path("runs/tiny-var"))
    parser.add_argument("--to", type=Path, default=Path("weights/tiny-var"))
    options = parser.parse_args()
    export(options.run, options.to)
    judging.bundle(options.run)


if __name__ == "__main__":
    main()
