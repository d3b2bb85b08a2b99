"""Stock models built from what a golden file states."""

from typing import Any

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from torch import Tensor
from transformers import UMT5Config, UMT5EncoderModel

from streamgen.kv.arena import Arena
from streamgen.kv.pool import Geometry, PagePool
from streamgen.kv.retention import KeepAll, SinkWindow
from streamgen.models.wan import CausalWan
from streamgen.models.wan_keys import convert, transformer_key, umt5_key, vae_keys
from streamgen.pipelines.denoise import LatentStream, StreamRules
from streamgen.sampling.flow import FlowSchedule
from tests.golden.fixtures import Golden

KERNELS = ("reference", "sdpa", "segments")
PAGE = 8


def transformer(golden: Golden) -> Any:
    """The stock transformer with the recorded weights."""
    config = golden.facts["model_config"]
    model = WanTransformer3DModel(
        patch_size=tuple(config["patch_size"]),
        num_attention_heads=config["num_heads"],
        attention_head_dim=config["dim"] // config["num_heads"],
        in_channels=config["in_dim"],
        out_channels=config["out_dim"],
        text_dim=config["text_dim"],
        freq_dim=config["freq_dim"],
        ffn_dim=config["ffn_dim"],
        num_layers=config["num_layers"],
        cross_attn_norm=golden.facts.get("cross_attn_norm", True),
        eps=golden.facts["eps"],
    ).requires_grad_(False)
    model.load_state_dict(convert(golden.weights, transformer_key, "the transformer"))
    return model


def vae(golden: Golden) -> Any:
    """The stock VAE with the recorded weights."""
    config = golden.facts["config"]
    model = AutoencoderKLWan(
        base_dim=config["dim"],
        z_dim=config["z_dim"],
        dim_mult=config["dim_mult"],
        num_res_blocks=config["num_res_blocks"],
        attn_scales=config["attn_scales"],
        temperal_downsample=config["temporal_downsample"],
        latents_mean=golden.facts["mean"],
        latents_std=golden.facts["std"],
    ).requires_grad_(False)
    model.load_state_dict(convert(golden.weights, vae_keys(golden.weights), "the VAE"))
    return model


def text_encoder(golden: Golden) -> Any:
    """The stock text encoder with the recorded weights."""
    config = golden.facts["config"]
    model = UMT5EncoderModel(
        UMT5Config(
            vocab_size=config["vocab"],
            d_model=config["dim"],
            d_kv=config["dim_attn"] // config["num_heads"],
            d_ff=config["dim_ffn"],
            num_heads=config["num_heads"],
            num_layers=config["num_layers"],
            relative_attention_num_buckets=config["num_buckets"],
            dropout_rate=0.0,
        )
    ).eval()
    state = convert(golden.weights, umt5_key, "the text encoder")
    missing = model.load_state_dict(state, strict=False)
    assert set(missing.missing_keys) <= {"encoder.embed_tokens.weight"} and not missing.unexpected_keys
    return model


def stream(
    model: CausalWan,
    schedule: FlowSchedule,
    rules: StreamRules,
    size: tuple[int, int],
    frames: int,
    kernel: str,
) -> LatentStream:
    """A stream over the real cache: a ring where there is a window, pages where there is none."""
    tokens = model.frame_tokens(*size)
    held = rules.held or frames
    pages = -(-held * tokens // PAGE)
    geometry = Geometry(
        layers=model.layers,
        kv_heads=model.heads,
        head_dim=model.head_dim,
        page_size=PAGE,
        dtype=torch.float32,
    )
    pool = PagePool(Arena(), geometry, 2 * pages + 2, name="golden")
    if rules.window is None:
        cache = pool.cache(KeepAll())
    else:
        retention = SinkWindow(window=rules.window * tokens, sink=rules.sink * tokens)
        cache = pool.cache(retention, reserve=held * tokens)
    return LatentStream(model, schedule, cache, kernel, rules, size)


def channels_first(x: Tensor) -> Tensor:
    """Recorded [B, F, C, h, w] <-> the model's [B, C, F, h, w]."""
    return x.transpose(1, 2)
