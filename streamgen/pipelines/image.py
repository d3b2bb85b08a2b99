"""ImagePipeline: a class in, a picture out, with a preview after each scale.

Shapes: B images, R sequences (B, or 2B under guidance), H and W image size.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from streamgen.attention.check import checked
from streamgen.attention.contract import Kernel
from streamgen.attention.registry import AUTO
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.models.registry import resolve
from streamgen.models.var import VAR
from streamgen.models.var_classes import Label
from streamgen.models.var_loading import load_var, refuse_pair
from streamgen.models.vqvae import VQVAE
from streamgen.models.vqvae_loading import load_vqvae
from streamgen.pipelines.image_edit import Kept, keeping, read_mask, read_picture
from streamgen.pipelines.image_files import ImageFiles
from streamgen.pipelines.image_memory import ScaleMemory, hardest_need, memory_bytes
from streamgen.pipelines.image_preview import Preview as Preview
from streamgen.pipelines.image_request import ImageRequest, settle_labels, settle_seeds, settle_size
from streamgen.pipelines.image_scales import Choose, Sampler, generate_scales
from streamgen.pipelines.image_settings import ImageSettings

DTYPES = (torch.float32, torch.bfloat16)


class ImagePipeline:
    """A next-scale model and its VQ-VAE. It holds no state of an image, so it makes several at once."""

    def __init__(
        self,
        model: VAR,
        vae: VQVAE,
        settings: ImageSettings | None = None,
        attention: str = AUTO,
        memory: Arena | None = None,
    ) -> None:
        refuse_pair(model.config, vae.config)
        self.model = model
        self.vae = vae
        self.settings = settings or ImageSettings.published(model.config.classes, model.config.vocabulary)
        self.attention = attention
        self.memory = memory or Arena(device=str(model.device))
        named = self.settings.classes.no_class
        if named != model.config.classes:
            raise UsageError(
                f"{named} classes are named and the model knows {model.config.classes}; name them all."
            )
        if torch.device(self.memory.device).type != model.device.type:
            raise UsageError(
                f"The memory lies on {self.memory.device} and the model on {model.device}; use one."
            )

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        vae: str | Path | None = None,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
        attention: str = AUTO,
        memory: Arena | None = None,
        download: bool = False,
    ) -> Self:
        """Load a bundled name, a folder, or a published VAR file (with `vae`, where it is not beside it).

        dtype None is float32 on a CPU and bfloat16 elsewhere. `memory` is the budget that images draw on.
        """
        dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
        if dtype not in DTYPES:
            raise UsageError(f"{dtype} is not a dtype for VAR; choose torch.float32 or torch.bfloat16.")
        files = ImageFiles.find(resolve(name_or_path, download), None if vae is None else Path(vae))
        return cls(
            load_var(files.var, dtype, device),
            load_vqvae(files.vae, dtype, device),
            files.settings,
            attention,
            memory or Arena(device=device),
        )

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the pictures."""
        side = self.model.config.patches[-1] * self.vae.config.reduction
        return side, side

    def memory_bytes(self, images: int, guided: bool = True) -> dict[str, int]:
        """Bytes of keys and values that a batch holds while it is made."""
        return memory_bytes(self.model.config, self.model.dtype, images * (2 if guided else 1))

    def stream(
        self,
        labels: Label | Sequence[Label],
        *,
        seeds: int | Sequence[int] = 0,
        preset: str = "demo",
        cfg: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        more_smooth: bool | None = None,
        size: tuple[int, int] | None = None,
    ) -> Iterator[Preview]:
        """Yield the batch after each scale; after the last one it is done.

        `labels`: numbers or names, None for no class. One seed counts up over the batch, a list gives each
        image its own; the same seed makes the same picture alone or in any batch.
        """
        settle_size(size, self.size, self.model.config.patches)
        numbers = settle_labels(labels, self.settings.classes)
        sampling = self.settings.preset(preset).changed(cfg, top_k, top_p, more_smooth)
        request = ImageRequest(
            numbers, settle_seeds(seeds, len(numbers)), sampling.check(self.model.config.vocabulary)
        )
        return self._run(request, self._kernel(request), self._sampler(request))

    def edit(
        self,
        image: Any,
        mask: Any,
        label: Label = None,
        *,
        seeds: int | Sequence[int] = 0,
        preset: str = "demo",
        cfg: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        more_smooth: bool | None = None,
    ) -> Iterator[Preview]:
        """Paint anew where the mask is true or white, as a picture of `label`; one variant a seed.

        The image is RGB of exactly the model's size. What stays is what the VQ-VAE makes of it.
        """
        picture, repaint = read_picture(image, self.size), read_mask(mask, self.size)
        variants = settle_seeds(seeds, 1 if isinstance(seeds, int) else len(seeds))
        number = self.settings.classes.number(label)
        sampling = self.settings.preset(preset).changed(cfg, top_k, top_p, more_smooth)
        request = ImageRequest(
            (number,) * len(variants), variants, sampling.check(self.model.config.vocabulary)
        )
        with torch.inference_mode():
            kept = Kept.of(self.vae, picture.to(self.model.device), repaint, self.model.config.patches)
        return self._run(request, self._kernel(request), keeping(self._sampler(request), kept, self.vae))

    def _sequences(self, request: ImageRequest) -> list[int]:
        """Labels of every sequence: told ones, then untold ones where they could make a difference."""
        untold = self.settings.classes.no_class
        guided = request.sampling.cfg > 0 and any(label != untold for label in request.labels)
        return [*request.labels, *([untold] * len(request.labels) if guided else [])]

    def _kernel(self, request: ImageRequest) -> Kernel:
        sequences = len(self._sequences(request))
        need = hardest_need(self.model.config, self.model.dtype, str(self.model.device), sequences)
        return checked(self.attention, need)

    def _sampler(self, request: ImageRequest) -> Choose:
        how = request.sampling
        generators = tuple(torch.Generator().manual_seed(seed) for seed in request.seeds)
        return Sampler(
            self.vae, self.model.config.scales, how.cfg, how.top_k, how.top_p, how.more_smooth, generators
        )

    @torch.inference_mode()
    def _run(self, request: ImageRequest, kernel: Kernel, choose: Choose) -> Iterator[Preview]:
        config, sequences = self.model.config, self._sequences(request)
        labels = torch.tensor(sequences, device=self.model.device)
        began = time.perf_counter()
        with ScaleMemory(config, self.model.dtype, self.memory, kernel, len(sequences)) as memory:
            for scale in generate_scales(self.model, self.vae, labels, memory, choose):
                seconds = time.perf_counter() - began
                yield Preview(
                    index=scale.index,
                    patches=config.patches,
                    labels=request.labels,
                    seeds=request.seeds,
                    seconds=seconds,
                    tokens=scale.tokens,
                    latent=scale.latent,
                    vae=self.vae,
                )
                began = time.perf_counter()
