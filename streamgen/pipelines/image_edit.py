"""In-painting, out-painting and editing: tokens of a given picture are kept where it is to stay as it is.

Shapes: B variants, T tokens of a scale, Z latent channels, p side of a scale's map, H and W image size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.vqvae import VQVAE
from streamgen.pipelines.image_scales import Choice, Choose

ALWAYS_KEPT = 3  # maps of no more tokens are kept whole, as published: they set the look of everything


@dataclass(frozen=True)
class Kept:
    """What is known of each scale."""

    places: tuple[Tensor, ...]  # bool [1, 1, p, p]
    tokens: tuple[Tensor, ...]  # [1, T]

    @classmethod
    def of(cls, vae: VQVAE, image: Tensor, repaint: Tensor, patches: Sequence[int]) -> "Kept":
        """image [1, C, H, W] in [-1, 1]; repaint bool [H, W]. A token stays where most of its cell does."""
        encoded = vae.encode(image, patches)
        stays = (~repaint)[None, None].to(image.device, torch.float32)
        places = [F.interpolate(stays, size=(side, side), mode="area") > 0.5 for side in patches]
        for place in places:
            if place.numel() <= ALWAYS_KEPT:
                place.fill_(True)
        return cls(tuple(places), encoded.tokens)


def keeping(choose: Choose, kept: Kept, vae: VQVAE) -> Choose:
    """Choose as before, and put the known tokens back in their places."""

    def choose_around(scale: int, logits: Tensor) -> Choice:
        choice = choose(scale, logits)
        place, known = kept.places[scale], kept.tokens[scale]
        codes = torch.where(place, vae.quantize.codes(known), choice.codes)
        return Choice(torch.where(place.flatten(1), known, choice.tokens), codes)

    return choose_around


def read_picture(image: Any, size: tuple[int, int]) -> Tensor:
    """A PIL picture or uint8 [H, W, 3] of exactly this size -> [1, 3, H, W] in [-1, 1]."""
    width, height = size
    fits = f"this model edits RGB pictures of {width}x{height}"
    if isinstance(image, Image.Image):
        if image.mode != "RGB":
            raise UsageError(f"The picture is in mode {image.mode} and {fits}; convert('RGB') it first.")
        image = np.asarray(image)
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise UsageError(f"{_described(image)} is no picture; {fits}, from PIL or as uint8 [H, W, 3].")
    if image.shape[:2] != (height, width):
        raise UsageError(
            f"The picture is {image.shape[1]}x{image.shape[0]} and {fits}; resize or pad it first."
        )
    return torch.from_numpy(image.copy()).permute(2, 0, 1)[None] / 127.5 - 1


def read_mask(mask: Any, size: tuple[int, int]) -> Tensor:
    """A PIL mask or bool or uint8 [H, W], true or white where to paint -> bool [H, W]."""
    width, height = size
    if isinstance(mask, Image.Image):
        mask = np.asarray(mask.convert("L"))
    if not isinstance(mask, np.ndarray) or mask.dtype not in (np.bool_, np.uint8) or mask.ndim != 2:
        raise UsageError(f"{_described(mask)} is no mask; give a PIL picture, or bool or uint8 [H, W].")
    if mask.shape != (height, width):
        raise UsageError(
            f"The mask is {mask.shape[1]}x{mask.shape[0]} and the picture {width}x{height}; make them equal."
        )
    repaint = torch.from_numpy(mask.copy() if mask.dtype == np.bool_ else mask > 127)
    if not bool(repaint.any()):
        raise UsageError("The mask paints nothing; make it true or white where the picture is to change.")
    if bool(repaint.all()):
        raise UsageError("The mask keeps nothing of the picture; use stream() for a new one.")
    return repaint


def _described(thing: Any) -> str:
    if isinstance(thing, np.ndarray | Tensor):
        return f"A {type(thing).__name__} of {thing.dtype} {list(thing.shape)}"
    return f"A {type(thing).__name__}"
