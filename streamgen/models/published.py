"""Stock models built from published state dicts: every size is told from the shapes of the tensors.

Head dim is the one fact that no shape tells; all published Wans have 128.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from accelerate import init_empty_weights
from torch import Tensor, nn

from streamgen.errors import UsageError
from streamgen.models.wan_keys import WeightKeyError, convert, some, transformer_key, umt5_key, vae_keys

HEAD_DIM = 128
WAN_LATENT_CHANNELS = 16  # whose mean and std are the defaults of the stock VAE


def transformer_from(state: Mapping[str, Tensor], head_dim: int = HEAD_DIM) -> Any:
    """A stock `WanTransformer3DModel` from tensors under their official or their diffusers names."""
    from diffusers import WanTransformer3DModel

    if "condition_embedder.time_proj.weight" not in state:
        state = convert(state, transformer_key, "a Wan transformer")
    dim, channels, *patch = _shape(state, "patch_embedding.weight")
    if dim % head_dim:
        raise UsageError(f"A model of dim {dim} has no heads of {head_dim} channels; give its head_dim.")
    config = {
        "patch_size": tuple(patch),
        "num_attention_heads": dim // head_dim,
        "attention_head_dim": head_dim,
        "in_channels": channels,
        "out_channels": _shape(state, "proj_out.weight")[0] // math.prod(patch),
        "text_dim": _shape(state, "condition_embedder.text_embedder.linear_1.weight")[1],
        "freq_dim": _shape(state, "condition_embedder.time_embedder.linear_1.weight")[1],
        "ffn_dim": _shape(state, "blocks.0.ffn.net.0.proj.weight")[0],
        "num_layers": _count(state, r"blocks\.(\d+)\."),
        "cross_attn_norm": "blocks.0.norm2.weight" in state,
    }
    return fill(lambda: WanTransformer3DModel(**config), state, "the Wan transformer")


def vae_from(state: Mapping[str, Tensor]) -> Any:
    """A stock `AutoencoderKLWan` from tensors under their official or their diffusers names."""
    from diffusers import AutoencoderKLWan

    if "post_quant_conv.weight" not in state:
        state = convert(state, vae_keys(state), "a Wan VAE")
    channels = _shape(state, "post_quant_conv.weight")[0]
    if channels != WAN_LATENT_CHANNELS:
        raise UsageError(
            f"A VAE of {channels} latent channels has means and deviations of its own, and weights do not "
            "tell them; give a diffusers folder."
        )
    config = _vae_config(state) | {"z_dim": channels}
    return fill(lambda: AutoencoderKLWan(**config), state, "the Wan VAE")


def text_encoder_from(state: Mapping[str, Tensor]) -> Any:
    """A stock `UMT5EncoderModel` from tensors under their official or their transformers names."""
    from transformers import UMT5Config, UMT5EncoderModel

    if "shared.weight" not in state:
        state = convert(state, umt5_key, "a UMT5 encoder")
    attention = "encoder.block.0.layer.0.SelfAttention"
    buckets, heads = _shape(state, f"{attention}.relative_attention_bias.weight")
    vocabulary, dim = _shape(state, "shared.weight")
    config = UMT5Config(
        vocab_size=vocabulary,
        d_model=dim,
        d_kv=_shape(state, f"{attention}.q.weight")[0] // heads,
        d_ff=_shape(state, "encoder.block.0.layer.1.DenseReluDense.wi_0.weight")[0],
        num_heads=heads,
        num_layers=_count(state, r"encoder\.block\.(\d+)\."),
        relative_attention_num_buckets=buckets,
    )
    state = {**state, "encoder.embed_tokens.weight": state["shared.weight"]}
    model = fill(lambda: UMT5EncoderModel(config), state, "the UMT5 encoder")
    model.tie_weights()
    return model


def fill(build: Callable[[], nn.Module], state: Mapping[str, Tensor], what: str) -> Any:
    """Build without memory, then take the tensors as they are; every key has to fit."""
    with init_empty_weights(include_buffers=False):
        model = build()
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    refuse_misfits(
        what,
        missing=expected.keys() - state.keys(),
        unknown=state.keys() - expected.keys(),
        misshapen=[
            f"{name} {list(state[name].shape)} instead of {list(shape)}"
            for name, shape in expected.items()
            if name in state and tuple(state[name].shape) != shape
        ],
    )
    model.load_state_dict(state, assign=True)
    return model.requires_grad_(False).eval()


def refuse_misfits(what: str, missing: Any, unknown: Any, misshapen: Any) -> None:
    """One sentence with every kind of key that does not fit, or nothing."""
    kinds = (("lacks", missing), ("does not know", unknown), ("has other shapes for", misshapen))
    faults = [f"{verb} {some(names)}" for verb, names in kinds if names]
    if faults:
        raise WeightKeyError(
            f"These weights are not those of {what}: it {'; it '.join(faults)}. "
            "Give the checkpoint that belongs to it."
        )


def _vae_config(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Level sizes of the flat encoder list: a level ends where a resample stands."""
    base = _shape(state, "encoder.conv_in.weight")[0]
    count = _count(state, r"encoder\.down_blocks\.(\d+)\.")
    multiples, temporal, blocks, within = [], [], 0, 0
    for index in range(count):
        name = f"encoder.down_blocks.{index}"
        if f"{name}.resample.1.weight" in state:
            temporal.append(f"{name}.time_conv.weight" in state)
            within = 0
            continue
        within += 1
        blocks = max(blocks, within)
        if within == 1:
            multiples.append(_shape(state, f"{name}.conv2.weight")[0] // base)
    return {
        "base_dim": base,
        "decoder_base_dim": _shape(state, "decoder.norm_out.gamma")[0] // multiples[0],
        "dim_mult": multiples,
        "num_res_blocks": blocks,
        "temperal_downsample": temporal,
    }


def _shape(state: Mapping[str, Tensor], name: str) -> tuple[int, ...]:
    if name not in state:
        raise WeightKeyError(f"The key {name} is missing, and without it the size of the model is unknown.")
    return tuple(state[name].shape)


def _count(state: Mapping[str, Tensor], pattern: str) -> int:
    numbers = [int(found[1]) for name in state if (found := re.match(pattern, name))]
    return max(numbers, default=-1) + 1
