"""VAR from its published files: every size is told from the tensors, every key has to fit.

Shapes: L tokens of all scales, S scales, C width.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from streamgen.errors import UsageError
from streamgen.models.checkpoint import read_weights
from streamgen.models.published import fill
from streamgen.models.var import VAR, VarConfig
from streamgen.models.var_blocks import ScaledAttention
from streamgen.models.vqvae import VqConfig
from streamgen.models.wan_keys import WeightKeyError

NESTS = ("trainer", "var_ema", "var_wo_ddp_ema", "var_wo_ddp", "var", "model", "state_dict")
HEAD_DIM = 64  # of every published model; only the scales of the heads tell another one
# What the constructor of the published class makes; recomputed here rather than trusted.
STRUCTURE = re.compile(r"lvl_1L|attn_bias_for_masking|blocks\.\d+\.attn\.zero_k_bias")
PUBLISHED_SCALES = (
    (1, 2, 3, 4, 5, 6, 8, 10, 13, 16),
    (1, 2, 3, 4, 6, 9, 13, 18, 24, 32),
    (1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 27, 36, 48, 64),
)


def load_var(path: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> VAR:
    """A published or converted file; its products are cast to dtype once, here."""
    model = var_from(read_weights(path, NESTS))
    cast_products(model, dtype)
    return model.to(device)


def var_from(state: Mapping[str, Tensor]) -> VAR:
    """The model whose tensors these are."""
    config = var_config(state)
    learned = {name: tensor for name, tensor in state.items() if not STRUCTURE.fullmatch(name)}
    model: VAR = fill(lambda: VAR(config), learned, f"a VAR of depth {config.depth} and width {config.width}")
    return model


def var_config(state: Mapping[str, Tensor]) -> VarConfig:
    """Depth, width, classes, scales and the rest, read off the tensors."""
    if "quantize.embedding.weight" in state:
        raise WeightKeyError("These are the weights of a VQ-VAE and not of a VAR; give the VAR file here.")
    classes, width = shape_of(state, "class_emb.weight")
    vocabulary = shape_of(state, "head.weight")[0]
    scale = state.get("blocks.0.attn.scale_mul_1H11")
    return VarConfig(
        depth=1 + max(int(found[1]) for name in state if (found := re.match(r"blocks\.(\d+)\.", name))),
        width=width,
        heads=_heads(width) if scale is None else scale.shape[1],
        hidden=shape_of(state, "blocks.0.ffn.fc1.weight")[0],
        classes=classes - 1,
        patches=_patches(state),
        vocabulary=vocabulary,
        channels=shape_of(state, "word_embed.weight")[1],
        shared_adaln="shared_ada_lin.1.weight" in state,
        unit_length=scale is not None,
    )


def refuse_pair(var: VarConfig, vae: VqConfig) -> None:
    """A VAR speaks the codes of one VQ-VAE."""
    if (var.vocabulary, var.channels) != (vae.vocabulary, vae.channels):
        raise UsageError(
            f"This VAR knows {var.vocabulary} codes of {var.channels} channels and the VQ-VAE has "
            f"{vae.vocabulary} of {vae.channels}; give the VQ-VAE that the VAR was trained with."
        )
    if vae.sharing == "none" and vae.phis != var.scales:
        raise UsageError(
            f"This VAR has {var.scales} scales and the VQ-VAE was trained on {vae.phis}; "
            "give the VQ-VAE that the VAR was trained with."
        )


def cast_products(model: VAR, dtype: torch.dtype) -> None:
    """Cast what is multiplied with, once; embeddings and the scales of the queries are kept in fp32."""
    model.float()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.to(dtype)
        if isinstance(module, ScaledAttention):
            for bias in (module.q_bias, module.v_bias):
                bias.data = bias.data.to(dtype)


def shape_of(state: Mapping[str, Tensor], name: str) -> tuple[int, ...]:
    if name not in state:
        raise WeightKeyError(
            f"The key {name} is missing, and without it the size of the model is unknown; "
            "give a VAR file with its VQ-VAE, flat or as its trainer saved it."
        )
    return tuple(state[name].shape)


def _heads(width: int) -> int:
    if width % HEAD_DIM:
        raise WeightKeyError(
            f"No key says how many heads this model of width {width} has, and that is no multiple "
            f"of {HEAD_DIM}; save it with attn.scale_mul_1H11."
        )
    return width // HEAD_DIM


def _patches(state: Mapping[str, Tensor]) -> tuple[int, ...]:
    """From the level of every token; where that buffer was left out, by the number of tokens."""
    tokens, scales = shape_of(state, "pos_1LC")[1], shape_of(state, "lvl_embed.weight")[0]
    if "lvl_1L" in state:
        counts = state["lvl_1L"].flatten().bincount(minlength=scales).tolist()
        patches = tuple(round(count**0.5) for count in counts)
        if len(counts) == scales and all(
            side * side == count for side, count in zip(patches, counts, strict=True)
        ):
            return patches
        raise WeightKeyError(f"lvl_1L counts {counts} tokens for {scales} scales, and those are no squares.")
    for patches in PUBLISHED_SCALES:
        if len(patches) == scales and sum(side * side for side in patches) == tokens:
            return patches
    raise WeightKeyError(
        f"No key says how {tokens} tokens are cut into {scales} scales; save the model with its lvl_1L."
    )
