"""Tiny random stock models, and a checkpoint folder made of them."""

import json
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

TEXT_DIM, ROWS = 12, 6
LATENTS = 4
WORDS = ("<pad>", "</s>", "<unk>", "a", "hero", "walks", "through", "snow", "sand", "north", "by", "night")
SETTINGS: dict[str, Any] = {
    "pipeline": "video",
    "fps": 8,
    "size": [32, 24],
    "chunk": 1,
    "window": 3,
    "sink": 1,
    "independent_first_frame": False,
    "context_noise": 0,
    "shift": 5.0,
    "steps": [1000, 500],
    "warp": True,
    "prediction": "flow_prediction",
    "sampler": "renoise",
    "planes": [],
    "text_length": ROWS,
    "positions": "absolute",
}


def seeded(model: nn.Module, seed: int = 0) -> Any:
    """Random weights everywhere, also where the class starts with zeros or ones; outputs near unit size."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if name.endswith(("norm_q.weight", "norm_k.weight", "norm2.weight", "gamma")):
            spread, centre = 0.2, 1.0
        elif weight.ndim > 1 and "scale_shift_table" not in name:
            spread, centre = weight[0].numel() ** -0.5, 0.0
        else:
            spread, centre = 0.2, 0.0
        weight.data.copy_(torch.randn(weight.shape, generator=generator) * spread + centre)
    return model.requires_grad_(False).eval()


def transformer(**changes: Any) -> Any:
    config: dict[str, Any] = {
        "patch_size": (1, 2, 2),
        "num_attention_heads": 2,
        "attention_head_dim": 12,
        "in_channels": LATENTS,
        "out_channels": LATENTS,
        "text_dim": TEXT_DIM,
        "freq_dim": 16,
        "ffn_dim": 32,
        "num_layers": 2,
    }
    return seeded(WanTransformer3DModel(**config | changes))


def vae(time_scale: int = 1) -> Any:
    """A VAE that shrinks space by 4 and time by `time_scale`."""
    return seeded(
        AutoencoderKLWan(
            base_dim=4,
            z_dim=LATENTS,
            dim_mult=[1, 1, 1],
            num_res_blocks=1,
            temperal_downsample={1: [False, False], 2: [False, True], 4: [True, True]}[time_scale],
            latents_mean=[0.1] * LATENTS,
            latents_std=[1.5] * LATENTS,
            scale_factor_temporal=time_scale,
            scale_factor_spatial=4,
        )
    )


def text_encoder() -> Any:
    config = UMT5Config(
        vocab_size=len(WORDS), d_model=TEXT_DIM, d_kv=4, d_ff=16, num_layers=1, num_heads=3, dropout_rate=0.0
    )
    return seeded(UMT5EncoderModel(config))


def tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    backend.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def folder(path: Path, time_scale: int = 1, **changes: Any) -> Path:
    """A whole checkpoint; `changes` are entries of its streamgen.json."""
    settings = SETTINGS | changes
    transformer(in_channels=LATENTS + len(settings["planes"])).save_pretrained(path / "transformer")
    vae(time_scale).save_pretrained(path / "vae")
    text_encoder().save_pretrained(path / "text_encoder")
    tokenizer().save_pretrained(path / "tokenizer")
    (path / "streamgen.json").write_text(json.dumps(settings))
    return path
