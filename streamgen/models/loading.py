"""Stock models from a folder or a file on this machine; nothing here opens a connection.

A part of a checkpoint is a diffusers or transformers folder (config.json and safetensors), or one of the
published files, whose sizes are told from the shapes of the tensors. A key that is missing, unknown or of
another shape is an error.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.checkpoint import read_weights
from streamgen.models.published import refuse_misfits, text_encoder_from, transformer_from, vae_from
from streamgen.models.wan_keys import WeightKeyError


def load_transformer(path: Path, dtype: torch.dtype) -> Any:
    """A stock `WanTransformer3DModel`."""
    from diffusers import WanTransformer3DModel

    return _load(path, dtype, WanTransformer3DModel, transformer_from)


def load_vae(path: Path, dtype: torch.dtype) -> Any:
    """A stock `AutoencoderKLWan`."""
    from diffusers import AutoencoderKLWan

    return _load(path, dtype, AutoencoderKLWan, vae_from)


def load_text_encoder(path: Path, dtype: torch.dtype) -> Any:
    """A stock `UMT5EncoderModel`."""
    from transformers import UMT5EncoderModel

    # transformers reports another shape only where it does not raise by itself.
    return _load(path, dtype, UMT5EncoderModel, text_encoder_from, ignore_mismatched_sizes=True)


def load_tokenizer(path: Path) -> Any:
    """The tokenizer of the text encoder."""
    from transformers import AutoTokenizer

    if not path.is_dir():
        raise UsageError(
            f"There is no tokenizer in {path}; a checkpoint folder has one beside its text encoder."
        )
    return AutoTokenizer.from_pretrained(path, local_files_only=True)


def _load(
    path: Path,
    dtype: torch.dtype,
    stock: Any,
    published: Callable[[Mapping[str, Tensor]], Any],
    **options: bool,
) -> Any:
    if not path.exists():
        raise UsageError(f"There is no {path}; give the folder or the file that holds the {stock.__name__}.")
    if not has_config_of(path, stock):
        return published(read_weights(path)).to(dtype)
    try:
        model, info = stock.from_pretrained(
            path,
            torch_dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    except ValueError as error:
        raise WeightKeyError(f"{path} does not fit its own config.json: {error}") from error
    refuse_misfits(
        f"the {stock.__name__} that {path} describes",
        missing=info["missing_keys"],
        unknown=info["unexpected_keys"],
        misshapen=[str(name) for name in info["mismatched_keys"]],
    )
    return model.requires_grad_(False).eval()


def has_config_of(path: Path, stock: Any) -> bool:
    """Whether a folder describes the stock class; the published Wan folder describes another one."""
    config = path / "config.json"
    if not config.is_file():
        return False
    facts = json.loads(config.read_text())
    return stock.__name__ in (facts.get("_class_name"), *(facts.get("architectures") or ()))
