"""Judges `tiny-var`: python -m weights.recipes.tiny_var.evaluate --sheet docs/pictures/tiny-var.png

500 pictures through the pipeline as users run it: how many are the digit asked for, and whether previews come
nearer.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from streamgen.models.var import VAR
from streamgen.models.var_classes import ClassNames
from streamgen.models.vqvae import VQVAE
from streamgen.pipelines.image import ImagePipeline
from streamgen.pipelines.image_settings import ImageSettings, Sampling

from . import judge as judging
from .digits import CLASSES

DEMO = Sampling(cfg=3.0, top_k=60, top_p=0.0)
WIDTHS = ((0, 0.96), (60, 0.0), (30, 0.0))  # top_k and top_p, widest first
BATCH = 50


def settings(demo: Sampling = DEMO) -> ImageSettings:
    return ImageSettings(ClassNames.numbered(CLASSES), {"demo": demo, "fid": Sampling(1.5, 0, 0.96)})


def pictures(pipe: ImagePipeline, count: int, first: int = 0) -> tuple[list[Tensor], Tensor]:
    """Previews of `count` pictures after every scale, [N, 3, 32, 32] in [-1, 1], and the digits asked for.

    Their seeds count up from `first`.
    """
    labels = torch.arange(count) % CLASSES
    batches = []
    for start in range(0, count, BATCH):
        asked = labels[start : start + BATCH].tolist()
        batches.append(
            [p.images for p in pipe.stream(asked, seeds=range(first + start, first + start + len(asked)))]
        )
    scales = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return [torch.from_numpy(scale).permute(0, 3, 1, 2) / 127.5 - 1 for scale in scales], labels


def accuracy(model: VAR, vae: VQVAE, judge: nn.Module, count: int, demo: Sampling = DEMO) -> float:
    """Share of pictures that are the digit asked for, on seeds that `report` does not use."""
    scales, labels = pictures(ImagePipeline(model, vae, settings(demo)), count, first=10**6)
    return float((judging.verdicts(judge, scales[-1]) == labels).float().mean())


def best_sampling(model: VAR, vae: VQVAE, judge: nn.Module, count: int) -> Sampling:
    """The weakest guidance and the widest choice that are within a point of the best."""
    tried = [Sampling(cfg, top_k, top_p) for cfg in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0) for top_k, top_p in WIDTHS]
    scores = {how: accuracy(model, vae, judge, count, how) for how in tried}
    for how, score in scores.items():
        print(f"cfg {how.cfg:g}, top_k {how.top_k}, top_p {how.top_p:g}: {score:.1%}", flush=True)
    return next(how for how, score in scores.items() if score >= max(scores.values()) - 0.01)


def report(pipe: ImagePipeline, judge: nn.Module, count: int) -> dict[str, object]:
    scales, labels = pictures(pipe, count)
    right = judging.verdicts(judge, scales[-1]) == labels
    away = torch.stack([(scale - scales[-1]).square().flatten(1).mean(1) for scale in scales])
    spread = torch.stack([scales[-1][labels == digit].std(0).mean() for digit in range(CLASSES)])
    return {
        "pictures": count,
        "as_asked": round(float(right.float().mean()), 4),
        "as_asked_by_digit": [
            round(float(right[labels == digit].float().mean()), 3) for digit in range(CLASSES)
        ],
        "squared_distance_to_the_picture_by_scale": [round(float(d), 5) for d in away.mean(1)],
        "share_of_previews_nearer_than_the_one_before": [
            round(float(share), 4) for share in (away.diff(dim=0) < 0).float().mean(1)
        ],
        "spread_within_a_digit": round(float(spread.mean()) / 2, 4),
        "sampling": vars(pipe.settings.preset("demo")),
    }


def sheet(pipe: ImagePipeline, columns: int = 16) -> Image.Image:
    """A row of pictures for each digit."""
    rows = []
    for digit in range(CLASSES):
        *_, done = pipe.stream([digit] * columns, seeds=1000 * digit)
        rows.append(np.concatenate(list(done.images), 1))
    return Image.fromarray(np.concatenate(rows)).resize(
        (columns * 64, CLASSES * 64), Image.Resampling.NEAREST
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="weights/tiny-var", help="a checkpoint folder, as exported")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    judge = judging.bundled()
    pipe = ImagePipeline.from_pretrained(options.model)
    print(json.dumps(report(pipe, judge, options.count), indent=2))
    if options.sheet:
        options.sheet.parent.mkdir(parents=True, exist_ok=True)
        sheet(pipe).save(options.sheet)


if __name__ == "__main__":
    main()
