"""The recorded Doc-to-LoRA runs: a stock base model, its hypernetwork, and the numbers of the public code."""

import json
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from streamgen.models.doc_lora_chunks import Affixes
from streamgen.models.doc_lora_loading import Loaded, load_doc_lora
from streamgen.models.doc_lora_reader import DocToLora
from tests.golden.fixtures import ROOT

FOLDERS = sorted(path.parent for path in (ROOT / "d2l").glob("*/meta.json"))
PICKLES = sorted((ROOT / "d2l").glob("*/pytorch_model.bin"))
CASES = [
    (folder, case) for folder in FOLDERS for case in json.loads((folder / "meta.json").read_text())["cases"]
]
SLIP, MEND = b"for-tests\xc7", b"for-testr\xc7"  # see the README of the folder


@dataclass(frozen=True)
class Recorded:
    """One base model with its hypernetwork."""

    folder: Path
    facts: dict[str, Any]
    tensors: dict[str, Tensor]
    model: Any
    loaded: Loaded

    @property
    def affixes(self) -> Affixes:
        return Affixes(*(tuple(self.facts["affixes"][side]) for side in ("prefix", "suffix")))

    @property
    def reader(self) -> DocToLora:
        return DocToLora(self.model, self.loaded, self.affixes)

    def documents(self, case: str) -> tuple[list[list[int]], int | None]:
        """The documents of a case as tokens, and the longest chunk."""
        facts = self.facts["cases"][case]
        return facts["doc_ids"], facts["max_chunk_len"] or None

    def assert_close(self, actual: Tensor, name: str) -> None:
        torch.testing.assert_close(
            actual,
            self.tensors[name],
            atol=1e-4,
            rtol=0,
            msg=lambda text: f"{self.folder.name} {name}: {text}",
        )


@cache
def recorded(folder: Path) -> Recorded:
    """The folder, read once."""
    facts = json.loads((folder / "meta.json").read_text())
    tensors = load_file(folder / "golden.safetensors")
    loaded = load_doc_lora(folder / "hypernet.safetensors")
    return Recorded(folder, facts, tensors, base_model(folder), loaded)


def base_model(folder: Path, attention: str = "eager") -> Any:
    """The stock base model in float32."""
    config = AutoConfig.from_pretrained(folder / "base_config.json", attn_implementation=attention)
    model = AutoModelForCausalLM.from_config(config).float().eval().requires_grad_(False)
    state = load_file(folder / "base.safetensors")
    missing, unknown = model.load_state_dict(state, strict=False)
    assert not unknown and set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model


def mended(pickle: Path, folder: Path) -> Path:
    """A copy of a recorded checkpoint without the slip of its README; a sound one stays as it is."""
    copy = folder / pickle.name
    with zipfile.ZipFile(pickle) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(SLIP, MEND))
    return copy
