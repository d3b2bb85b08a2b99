"""From frames to what a vision tower takes: resized, scaled, normalised, for Qwen models cut into patches.

The numbers come from the preprocessor's file of a checkpoint. transformers' own video processors do the same,
but need torchvision. Shapes: F frames, H height, W width, C colours, P patch side, M patches merged a side.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from einops import rearrange, repeat
from torch import Tensor
from torch.nn import functional

from streamgen.errors import UsageError

Frames = npt.NDArray[np.uint8]  # [F, H, W, 3]
FILES = ("video_preprocessor_config.json", "processor_config.json", "preprocessor_config.json")
_MODES = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # PIL's numbers


@dataclass(frozen=True)
class Pixels:
    """How a checkpoint wants its pixels."""

    size: tuple[int, int] | None  # height and width, or None where any multiple of the patches will do
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    scale: float = 1 / 255
    mode: str = "bicubic"

    @classmethod
    def load(cls, folder: Path) -> "Pixels":
        """Read the preprocessor's file of a checkpoint folder."""
        facts = _read(Path(folder))
        size = facts.get("size") or {}
        fixed = (int(size["height"]), int(size["width"])) if "height" in size else None
        mode = _MODES.get(int(facts.get("resample", 3)))
        if mode is None:
            raise UsageError(
                f"{folder} resizes with filter {facts['resample']}; known are {', '.join(_MODES.values())} "
                f"({', '.join(map(str, _MODES))})."
            )
        scale = float(facts.get("rescale_factor", 1 / 255))
        return cls(fixed, tuple(facts["image_mean"]), tuple(facts["image_std"]), scale, mode)

    def prepared(self, frames: Frames, size: tuple[int, int], device: torch.device | str) -> Tensor:
        """Frames as float [F, 3, H, W] of this height and width."""
        pixels = rearrange(torch.from_numpy(frames).to(device), "f h w c -> f c h w").float()
        if tuple(pixels.shape[2:]) != size:
            soft = {} if self.mode == "nearest" else {"antialias": True, "align_corners": False}
            pixels = functional.interpolate(pixels, size=size, mode=self.mode, **soft)
            pixels = pixels.round().clamp(0, 255)
        mean = torch.tensor(self.mean, device=device).view(1, -1, 1, 1)
        deviation = torch.tensor(self.deviation, device=device).view(1, -1, 1, 1)
        return (pixels * self.scale - mean) / deviation


def _read(folder: Path) -> dict[str, Any]:
    for name in FILES:
        path = folder / name
        if path.is_file():
            facts = json.loads(path.read_text(encoding="utf-8"))
            for inner in ("video_processor", "image_processor"):
                if inner in facts:
                    facts = facts[inner]
            if "image_mean" in facts:
                return dict(facts)
    raise UsageError(
        f"{folder} does not say how it wants its pixels; add a {FILES[0]} with size, image_mean, image_std."
    )


def fitted(height: int, width: int, factor: int, most: int) -> tuple[int, int]:
    """A size in multiples of `factor` near height x width, of at most `most` such squares."""
    if max(height, width) > 200 * min(height, width):
        raise UsageError(f"A picture of {width}x{height} is too narrow; its sides may differ 200 times.")
    rows, columns = max(1, round(height / factor)), max(1, round(width / factor))
    if rows * columns > most:
        shrink = math.sqrt(height * width / (most * factor * factor))
        rows = max(1, math.floor(height / shrink / factor))
        columns = max(1, math.floor(width / shrink / factor))
        rows, columns = min(rows, most // columns or 1), min(columns, most // rows or 1)
    return rows * factor, columns * factor


def patched(pixels: Tensor, patch: int, merge: int, frames: int) -> tuple[Tensor, Tensor]:
    """Pixels [F, 3, H, W] -> patches [N, C*frames*P*P] and grid [1, 3]; the last frame fills a group."""
    missing = -len(pixels) % frames
    if missing:
        pixels = torch.cat([pixels, repeat(pixels[-1], "c h w -> m c h w", m=missing)])
    rows, columns = pixels.shape[2] // patch, pixels.shape[3] // patch
    flat = rearrange(
        pixels,
        "(t f) c (h m p) (w n q) -> (t h w m n) (c f p q)",
        f=frames,
        m=merge,
        n=merge,
        p=patch,
        q=patch,
    )
    return flat, torch.tensor([[len(pixels) // frames, rows, columns]], device=pixels.device)
