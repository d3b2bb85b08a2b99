"""Writes a trained run as a checkpoint folder.

    python -m weights.recipes.tiny_vlm.export --run runs/tiny-vlm --to weights/tiny-vlm

The folder is what transformers writes for LLaVA-OneVision (bf16 safetensors), and `streamgen.json`.
Afterwards `python -m weights.recipes.register tiny-vlm` writes the sums of the files into the registry.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from .model import PATCH, SIZE, model
from .story import FPS
from .text import ASK, SYSTEM, tokenizer

SETTINGS = {
    "pipeline": "videoqa",
    "fps": FPS,
    "chunk": 4,
    "budget": 64,
    "prompt": SYSTEM,
    "question": ASK.replace("{}", "{question}"),
    "answer_tokens": 4,
    "repetition_penalty": 1.0,
}
_PIXELS: dict[str, Any] = {
    "do_resize": True, "size": {"height": SIZE, "width": SIZE}, "resample": 3, "do_rescale": True,
    "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
    "do_convert_rgb": True,
}  # fmt: skip
PROCESSORS: dict[str, dict[str, Any]] = {
    "preprocessor_config.json": {
        **_PIXELS, "image_processor_type": "LlavaOnevisionImageProcessor", "do_pad": True,
        "image_grid_pinpoints": [[SIZE, SIZE]],
    },
    "video_preprocessor_config.json": {**_PIXELS, "video_processor_type": "LlavaOnevisionVideoProcessor"},
    "processor_config.json": {
        "processor_class": "LlavaOnevisionProcessor", "num_image_tokens": (SIZE // PATCH) ** 2,
        "vision_feature_select_strategy": "full", "image_token": "<image>", "video_token": "<video>",
    },
}  # fmt: skip


def export(weights: Path, to: Path) -> None:
    words = tokenizer()
    net = model(len(words))
    net.load_state_dict(load_file(weights))
    net.to(torch.bfloat16).save_pretrained(to, safe_serialization=True)
    words.save_pretrained(to, save_jinja_files=False)
    for name, facts in PROCESSORS.items():
        (to / name).write_text(json.dumps(facts, indent=1) + "\n")
    (to / "streamgen.json").write_text(json.dumps(SETTINGS, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path("runs/tiny-vlm"))
    parser.add_argument(
        "--weights", default="guided.safetensors", help="or average.safetensors, as yet unguided"
    )
    parser.add_argument("--to", type=Path, default=Path("weights/tiny-vlm"))
    options = parser.parse_args()
    export(options.run / options.weights, options.to)


if __name__ == "__main__":
    main()
