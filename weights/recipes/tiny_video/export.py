"""Writes a trained run as a checkpoint folder.

    python -m weights.recipes.tiny_video.export --run runs/tiny-video --to weights/tiny-video

The folder has the diffusers layout (bf16 safetensors of stock classes) and `streamgen.json`. Afterwards
`python -m weights.recipes.register tiny-video` writes the sums of the files into the registry.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from .codec import Linear, into_stock
from .model import SINK, WINDOW
from .text import LENGTH, tokenizer
from .train import Student

SETTINGS: dict[str, object] = {
    "pipeline": "video",
    "fps": 8,
    "size": [64, 64],
    "chunk": 1,
    "window": WINDOW + 1,
    "sink": SINK,
    "independent_first_frame": False,
    "context_noise": 0,
    "shift": 3.0,
    "steps": [1000, 750, 500, 250],
    "warp": True,
    "prediction": "sample",
    "sampler": "euler",
    "planes": ["y", "x"],
    "text_length": LENGTH,
    "positions": "window",
}


def write(run: Path, to: Path, settings: dict[str, object], actions: int = 0) -> None:
    """The run's averaged weights and codec as stock parts, and what `streamgen.json` says of them."""
    words = tokenizer()
    student = Student(len(words), actions)
    missing, unknown = student.load_state_dict(load_file(run / "average.safetensors"), strict=False)
    tied = {"text.encoder.embed_tokens.weight", "text.shared.weight"}
    if set(missing) - tied or unknown:
        raise ValueError(f"{run} holds another model: missing {missing}, unknown {unknown}.")
    codec = Linear(**load_file(run / "codec.safetensors"))
    parts = {"transformer": student.video, "text_encoder": student.text, "vae": into_stock(codec)}
    for name, part in parts.items():
        part.to(torch.bfloat16).save_pretrained(to / name, safe_serialization=True)
    words.save_pretrained(to / "tokenizer")
    (to / "streamgen.json").write_text(json.dumps(settings, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path("runs/tiny-video"))
    parser.add_argument("--to", type=Path, default=Path("weights/tiny-video"))
    options = parser.parse_args()
    write(options.run, options.to, SETTINGS)


if __name__ == "__main__":
    main()
