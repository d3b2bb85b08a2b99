"""The multi-scale VQ-VAE from its published file: every size is told from the tensors."""

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from streamgen.models.checkpoint import read_weights
from streamgen.models.published import fill
from streamgen.models.var_loading import shape_of
from streamgen.models.vqvae import VQVAE, VqConfig
from streamgen.models.vqvae_layers import Ladder
from streamgen.models.vqvae_scales import Sharing
from streamgen.models.wan_keys import WeightKeyError

NESTS = ("trainer", "vae_ema", "vae_wo_ddp", "vae_local", "vae", "model", "state_dict")
STATISTICS = "quantize.ema_vocab_hit_SV"  # how often codes were used in training
_PHI = re.compile(r"quantize\.quant_resi\.(qresi_ls\.|qresi\.)?(\d+)?\.?weight")


def load_vqvae(path: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> VQVAE:
    """A published or converted file, cast to dtype and laid out channels last once, here."""
    model = vqvae_from(read_weights(path, NESTS))
    prepare(model, dtype)
    return model.to(device)


def prepare(model: VQVAE, dtype: torch.dtype) -> None:
    """Cast and lay out everything but the quantiser, which stays fp32."""
    for part in (model.encoder, model.decoder, model.quant_conv, model.post_quant_conv):
        part.to(dtype)
        for weight in part.parameters():
            if weight.ndim == 4:
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    model.quantize.float()


def vqvae_from(state: Mapping[str, Tensor]) -> VQVAE:
    """The model whose tensors these are."""
    config = vqvae_config(state)
    learned = {name: tensor for name, tensor in state.items() if name != STATISTICS}
    model: VQVAE = fill(lambda: VQVAE(config), learned, f"a multi-scale VQ-VAE of {config.vocabulary} codes")
    return model


def vqvae_config(state: Mapping[str, Tensor]) -> VqConfig:
    """Codes, channels, levels and the rest, read off the tensors."""
    if "class_emb.weight" in state:
        raise WeightKeyError("These are the weights of a VAR and not of a VQ-VAE; give the VQ-VAE file here.")
    vocabulary, channels = shape_of(state, "quantize.embedding.weight")
    base, colours = shape_of(state, "encoder.conv_in.weight")[:2]
    levels = _count(state, r"encoder\.down\.(\d+)\.")
    sizes = [shape_of(state, f"encoder.down.{level}.block.0.conv2.weight")[0] for level in range(levels)]
    phis, sharing = _phis(state)
    return VqConfig(
        vocabulary=vocabulary,
        ladder=Ladder(
            colours=colours,
            latent=channels,
            base=base,
            multiples=tuple(size // base for size in sizes),
            blocks=_count(state, r"encoder\.down\.0\.block\.(\d+)\."),
            lowest_attention=f"encoder.down.{levels - 1}.attn.0.qkv.weight" in state,
            middle_attention="encoder.mid.attn_1.qkv.weight" in state,
        ),
        phis=phis,
        sharing=sharing,
        kernel=shape_of(state, "quant_conv.weight")[2],
    )


def _phis(state: Mapping[str, Tensor]) -> tuple[int, Sharing]:
    names = [name for name in state if _PHI.fullmatch(name)]
    if not names:
        raise WeightKeyError(
            "No quantize.quant_resi is in this file; only VQ-VAEs with such convolutions are known."
        )
    if names[0].endswith("qresi.weight"):
        return 1, "all"
    return len(names), "stretches" if "qresi_ls" in names[0] else "none"


def _count(state: Mapping[str, Tensor], pattern: str) -> int:
    numbers = [int(found[1]) for name in state if (found := re.match(pattern, name))]
    return max(numbers, default=-1) + 1
