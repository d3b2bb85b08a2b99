"""A next-scale model of random weights, small enough for a test: three scales, 16x16 pictures."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from streamgen.models.var import VAR, VarConfig
from streamgen.models.var_classes import ClassNames
from streamgen.models.vqvae import VQVAE, VqConfig
from streamgen.models.vqvae_layers import Ladder
from streamgen.pipelines.image import ImagePipeline
from streamgen.pipelines.image_settings import ImageSettings, Sampling

NAMES = ("zero, nought", "one", "two", "crane", "crane, lifting machine")
PRESETS = {"demo": Sampling(3.0, 8, 0.95), "fid": Sampling(1.5, 0, 0.9)}


def var_config(patches: tuple[int, ...] = (1, 2, 4), shared: bool = False) -> VarConfig:
    return VarConfig(
        depth=2, width=32, heads=2, hidden=64, classes=len(NAMES), patches=patches, vocabulary=16, channels=8,
        shared_adaln=shared, unit_length=True,
    )  # fmt: skip


def vq_config(vocabulary: int = 16) -> VqConfig:
    ladder = Ladder(3, 8, 16, (1, 1, 1), 1, lowest_attention=True, middle_attention=True)
    return VqConfig(vocabulary, ladder, phis=4, sharing="stretches", kernel=3)


def drawn(model: nn.Module, seed: int) -> None:
    """Weights of about unit gain, so that classes, scales and places all make a difference."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        spread = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.2
        noise = torch.randn(parameter.shape, generator=generator) * spread
        parameter.data = noise + (1.0 if "norm" in name and name.endswith("weight") else 0.0)


def make_var(config: VarConfig | None = None, seed: int = 1) -> VAR:
    model = VAR(config or var_config())
    drawn(model, seed)
    model.class_emb.weight.data *= 4
    return model.requires_grad_(False).eval()


def make_vqvae(config: VqConfig | None = None, seed: int = 2) -> VQVAE:
    model = VQVAE(config or vq_config())
    drawn(model, seed)
    return model.requires_grad_(False).eval()


def make_pipeline(attention: str = "auto", **kwargs: object) -> ImagePipeline:
    return ImagePipeline(
        make_var(), make_vqvae(), ImageSettings(ClassNames(NAMES), PRESETS), attention, **kwargs
    )  # type: ignore[arg-type]


def write_checkpoint(folder: Path) -> Path:
    """The test model as a checkpoint folder."""
    model, vae = make_var(), make_vqvae()
    level = torch.cat([torch.full((side * side,), i) for i, side in enumerate(model.config.patches)])[None]
    for name, state in {
        "transformer": {**model.state_dict(), "lvl_1L": level},
        "vae": vae.state_dict(),
    }.items():
        (folder / name).mkdir(parents=True)
        save_file(
            {key: tensor.contiguous() for key, tensor in state.items()}, folder / name / "model.safetensors"
        )
    facts = {"pipeline": "image", "classes": NAMES, "presets": {n: vars(how) for n, how in PRESETS.items()}}
    (folder / "streamgen.json").write_text(json.dumps(facts))
    return folder
