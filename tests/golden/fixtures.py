"""Golden numbers: every file and variant in the folder that STREAMGEN_GOLDEN names (or in this one)."""

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

ROOT = Path(os.environ.get("STREAMGEN_GOLDEN") or Path(__file__).parent)


@dataclass(frozen=True)
class Golden:
    """One recorded file: `facts` is its JSON, `tensors` its numbers."""

    path: Path
    facts: dict[str, Any]
    tensors: dict[str, Tensor]

    def __repr__(self) -> str:
        return self.path.stem

    @property
    def weights(self) -> dict[str, Tensor]:
        prefix = "weights/"
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}

    def names(self, prefix: str) -> list[str]:
        """What follows the prefix in the names of the tensors that begin with it."""
        return sorted(name.removeprefix(prefix) for name in self.tensors if name.startswith(prefix))

    def assert_close(self, actual: Tensor, name: str) -> None:
        """The tensor is the recorded one at the tolerance that the file states."""
        self.assert_equal_to(actual, self.tensors[name], name)

    def assert_equal_to(self, actual: Tensor, expected: Tensor, what: str) -> None:
        tolerance = self.facts["tolerance"]
        torch.testing.assert_close(
            actual.float(),
            expected.float(),
            atol=tolerance["atol"],
            rtol=tolerance["rtol"],
            msg=lambda text: f"{self.path.stem}: {what}: {text}",
        )


def files(family: str) -> list[Path]:
    """Every recorded JSON of a family."""
    return sorted((ROOT / family).glob("*.json"))


def kind(path: Path) -> str:
    """What a file says it is."""
    return str(json.loads(path.read_text())["name"])


def of_kind(family: str, name: str) -> list[Path]:
    """Every recorded JSON of a family that says it is `name`."""
    return [path for path in files(family) if kind(path) == name]


def variants(family: str, name: str) -> list[tuple[Path, str]]:
    """Every file of that kind with each of its variants."""
    return [
        (path, variant)
        for path in of_kind(family, name)
        for variant in json.loads(path.read_text())["variants"]
    ]


@cache
def golden(path: Path) -> Golden:
    """The file, read once."""
    facts = json.loads(path.read_text())
    return Golden(path, facts, load_file(path.parent / facts["file"]))


def named(value: object) -> str:
    """A test id that says the file and the variant."""
    return value.stem if isinstance(value, Path) else str(value)
