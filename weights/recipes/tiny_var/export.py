"""Writes a trained run as the checkpoint folder weights/tiny-var: python -m weights.recipes.tiny_var.export

The judge is kept beside the recipe, and the `demo` preset is the way to sample that it likes best. Afterwards
`python -m weights.recipes.register tiny-var` writes the sums into the registry.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from streamgen.models.var_loading import load_var
from streamgen.models.vqvae_loading import load_vqvae

from . import judge as judging
from .codec import PATCHES
from .digits import CLASSES
from .evaluate import best_sampling, settings

LEVELS = torch.cat([torch.full((side * side,), scale) for scale, side in enumerate(PATCHES)])[None]


def export(run: Path, to: Path, judged: int) -> None:
    average = torch.load(run / "state.pt", weights_only=True)["average"]
    codec = torch.load(run / "previews.pt", weights_only=True)
    # The published layout: lvl_1L says how the tokens are cut into scales.
    write(to / "transformer" / "model.safetensors", {**halved(average), "lvl_1L": LEVELS})
    write(to / "vae" / "model.safetensors", codec)
    var, vae = load_var(to / "transformer"), load_vqvae(to / "vae")
    demo = best_sampling(var, vae, judging.bundled(), judged)
    facts = {
        "pipeline": "image",
        "classes": [str(digit) for digit in range(CLASSES)],
        "presets": {name: vars(how) for name, how in settings(demo).presets.items()},
    }
    (to / "streamgen.json").write_text(json.dumps(facts, indent=1) + "\n")


def halved(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(torch.bfloat16) for name, tensor in state.items()}


def write(path: Path, state: dict[str, Tensor]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    path.chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path("runs/tiny-var"))
    parser.add_argument("--to", type=Path, default=Path("weights/tiny-var"))
    parser.add_argument(
        "--judged", type=int, default=200, help="pictures of each way to sample that is tried"
    )
    options = parser.parse_args()
    judging.bundle(options.run)
    export(options.run, options.to, options.judged)


if __name__ == "__main__":
    main()
