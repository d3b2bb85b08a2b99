"""Checkpoints as the published trainer saves them: tensors and its dataclasses in one pickle."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from peft import LoraConfig, TaskType
from torch import Tensor

SWITCHES: dict[str, Any] = {
    "use_light_weight_lora": False,
    "light_weight_latent_size": 128,
    "per_rank_gen": True,
    "use_per_rank_bias": False,
    "per_layer_processing": True,
    "use_token_mixing": False,
    "dropout_rate": 0.0,
    "extra_modules": None,
}
AGGREGATOR: dict[str, Any] = {
    "aggregator_type": "perceiver",
    "num_extra_modules": 0,
    "pooling_type": "mean",
    "per_rank_gen": True,
    "num_self_attn_per_block": 0,
    "shared_weights": False,
    "layer_to_layer_ctx_encoder": True,
}
ENCODER: dict[str, Any] = {
    "ctx_encoder_model_name_or_path": None,
    "ctx_encoder_type": "per_layer_activations",
    "layer_idx": None,
    "quantize_ctx_encoder": False,
    "ctx_encoder_last_layer": None,
}
Sizes = Mapping[str, tuple[int, int]]


def tree_of(state: Mapping[str, Tensor], base: str, alpha: float, sizes: Sizes) -> dict[str, Any]:
    """What the trainer saves, its dataclasses as dictionaries; the keys are those of the published files."""
    _, layers, rank, _ = state[f"scaler_A.{min(sizes)}"].shape
    lora = LoraConfig(
        r=rank, lora_alpha=alpha, target_modules=set(sizes), task_type=TaskType.CAUSAL_LM, bias="none"
    )
    inputs, outputs = ({name: pair[side] for name, pair in sizes.items()} for side in (0, 1))
    config = SWITCHES | {
        "lora_config": lora,
        "layer_indices": torch.arange(layers),
        "feature_sizes": (inputs, outputs),
        "aggregator_config": dict(AGGREGATOR),
    }
    return {
        **state,
        "base_model_name_or_path": base,
        "hypernet_config": config,
        "ctx_encoder_args": dict(ENCODER),
    }


def write(path: Path, tree: Mapping[str, Any]) -> Path:
    """The pickle, in which the dictionaries are the dataclasses of the training code."""
    tree = dict(tree)
    with pytest.MonkeyPatch.context() as patch:
        if "hypernet_config" in tree:
            config = dict(tree["hypernet_config"])
            aggregator = config["aggregator_config"]
            config["aggregator_config"] = made(patch, "modeling.aggregator", "AggregatorConfig", aggregator)
            tree["hypernet_config"] = made(patch, "modeling.hypernet", "HypernetConfig", config)
        if "ctx_encoder_args" in tree:
            tree["ctx_encoder_args"] = made(patch, "configs", "CtxEncoderArguments", tree["ctx_encoder_args"])
        torch.save(tree, path)
    return path


def made(patch: pytest.MonkeyPatch, module: str, name: str, fields: Mapping[str, Any]) -> object:
    """An instance of a class that pickles under this name of the training code."""
    place = f"ctx_to_lora.{module}"
    for package in ("ctx_to_lora", "ctx_to_lora.modeling", place):
        patch.setitem(sys.modules, package, sys.modules.get(package) or ModuleType(package))
    kind = type(name, (), {"__module__": place})
    patch.setattr(sys.modules[place], name, kind, raising=False)
    one = kind()
    one.__dict__.update(fields)
    return one
