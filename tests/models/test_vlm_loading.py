"""A vision-language checkpoint is loaded whole, or refused with what does not fit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from streamgen.errors import UsageError
from streamgen.models.vlm_families import LlavaVision, Qwen3Vision, QwenVision
from streamgen.models.vlm_loading import load_vlm
from tests.models.tiny_vlms import MAKERS, encode

EYES = {"llava_onevision": LlavaVision, "qwen2_5_vl": QwenVision, "qwen3_vl": Qwen3Vision}


def folder(path: Path, family: str, change: Any = None) -> Path:
    """A checkpoint as transformers writes it; `change` edits its tensors."""
    MAKERS[family]().save_pretrained(path)
    (path / "preprocessor_config.json").write_text('{"image_mean": [0, 0, 0], "image_std": [1, 1, 1]}')
    if change is not None:
        tensors = load_file(path / "model.safetensors")
        change(tensors)
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    return path


@pytest.mark.parametrize("family", MAKERS)
def test_every_family_is_loaded_with_its_own_eyes(family: str, tmp_path: Path) -> None:
    vlm, vision = load_vlm(folder(tmp_path, family), torch.float32, "cpu", 8, encode)
    assert type(vision) is EYES[family]
    assert vlm.axes == (1 if family == "llava_onevision" else 3)
    assert not vlm.model.training


def test_a_missing_weight_is_named(tmp_path: Path) -> None:
    name = "model.language_model.layers.1.mlp.up_proj.weight"

    def change(tensors: dict[str, torch.Tensor]) -> None:
        found = [key for key in tensors if key.endswith("layers.1.mlp.up_proj.weight")]
        del tensors[found[0]]

    with pytest.raises(UsageError, match=f"missing keys .*{name}"):
        load_vlm(folder(tmp_path, "llava_onevision", change), torch.float32, "cpu", None, encode)


def test_a_weight_that_belongs_to_nothing_is_named(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.extra.weight"] = torch.zeros(2)

    with pytest.raises(UsageError, match="unexpected keys .*extra"):
        load_vlm(folder(tmp_path, "llava_onevision", change), torch.float32, "cpu", None, encode)


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UsageError, match="'bert'.*llava_onevision"):
        load_vlm(tmp_path, torch.float32, "cpu", None, encode)
