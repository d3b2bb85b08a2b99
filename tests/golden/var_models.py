"""The recorded VAR sets: variants, settings and tolerances as their JSON words them, and runs to compare."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from streamgen.attention.registry import kernels
from streamgen.kv.arena import Arena
from streamgen.models.var import VAR
from streamgen.models.var_loading import var_from
from streamgen.models.vqvae import VQVAE
from streamgen.models.vqvae_loading import vqvae_from
from streamgen.pipelines.image_memory import ScaleMemory
from tests.golden.fixtures import files

KERNELS = [
    name
    for name, kernel in kernels().items()
    if name in ("reference", "sdpa", "segments") and not kernel.absent()
]
ALIASES = {
    "kcache": "k",
    "vcache": "v",
    "next_map": "f_hat",
    "h": "f_hat",
    "enc_f_hat": "f_hat",
    "recon_partial": "recon",
}


@dataclass(frozen=True)
class Settings:
    """How a recorded run was sampled."""

    cfg: float
    top_k: int
    top_p: float
    seed: int


@dataclass(frozen=True)
class Recorded:
    """One variant of one set."""

    facts: dict[str, Any]
    variant: str
    model: VAR
    vae: VQVAE
    expected: dict[str, Tensor]
    vae_expected: dict[str, Tensor]

    @property
    def patches(self) -> tuple[int, ...]:
        return self.model.config.patches

    @property
    def labels(self) -> list[int]:
        labels: list[int] = self.facts["labels"][self.variant]
        return labels

    def tokens(self, name: str) -> tuple[Tensor, ...]:
        """Recorded tokens, cut into scales."""
        return self.expected[name].long().split([side * side for side in self.patches], dim=1)

    def assert_close(
        self, actual: Tensor, name: str, expected: Tensor | None = None, growth: float = 1.0
    ) -> None:
        """As recorded, at the tolerance that the JSON states for numbers of this kind."""
        expected = self.expected[name] if expected is None else expected
        assert_within(actual, expected, growth * tolerance(self.facts, name), f"{self.variant}: {name}")


def assert_within(actual: Tensor, expected: Tensor, allowed: float, what: str) -> None:
    torch.testing.assert_close(
        actual.float(), expected.float(), atol=allowed, rtol=0, msg=lambda text: f"{what}: {text}"
    )


def tolerance(facts: dict[str, Any], name: str) -> float:
    """The advice, read: "hidden/k/v 1e-4" is said of three kinds. Other kinds go by the logits."""
    said = {
        kind: float(number)
        for kinds, number in re.findall(r"([A-Za-z_./]+) (\d+e-\d+)", facts["tolerance_advice"])
        for kind in kinds.split("/")
    }
    kinds = [ALIASES.get(part, part) for part in name.split(".")]
    if ".".join(name.split(".")[:2]) in said:
        return said[".".join(name.split(".")[:2])]
    return next((said[kind] for kind in kinds if kind in said), said["logits_raw"])


def settings(facts: dict[str, Any], step: str) -> Settings:
    """What a step says of its sampling; a step that is 'the same but' is read after the one before it."""
    words = facts["steps"][step]
    if words.startswith("Same"):
        earlier = list(facts["steps"])[list(facts["steps"]).index(step) - 1]
        words = f"{words} {facts['steps'][earlier]}"
    return Settings(
        _number(words, "cfg"),
        int(_number(words, "top_k")),
        _number(words, "top_p"),
        int(_number(words, "g_seed")),
    )


def _number(words: str, name: str) -> float:
    found = re.search(rf"\b{name}=(-?[\d.]*\d)", words)
    return float(found[1]) if found else 0.0


def sets() -> list[tuple[Path, str]]:
    """Every set with each variant of it."""
    paths = [path for path in files("var") if "config" in json.loads(path.read_text())]
    return [
        (path, variant)
        for path in paths
        for variant in json.loads(path.read_text())["config"]
        if variant.startswith("var")
    ]


@cache
def recorded(path: Path, variant: str) -> Recorded:
    """The variant, loaded once; its weights are the published layout, so loading them is a test already."""
    stem = path.stem + variant.removeprefix("var")
    vae = path.stem.replace("var", "vae", 1)
    own = _merged(path.parent, f"{stem}_expected*")
    vae_expected = {name.removeprefix("vae."): own[name] for name in own if name.startswith("vae.")}
    return Recorded(
        json.loads(path.read_text()),
        variant,
        var_from(load_file(path.parent / f"{stem}.safetensors")),
        vqvae_from(load_file(path.parent / f"{vae}.safetensors")),
        own,
        vae_expected or _merged(path.parent, f"{vae}_expected*"),
    )


def _merged(folder: Path, pattern: str) -> dict[str, Tensor]:
    return {
        name: tensor
        for path in sorted(folder.glob(f"{pattern}.safetensors"))
        for name, tensor in load_file(path).items()
    }


def memory(model: VAR, kernel: str, sequences: int) -> ScaleMemory:
    return ScaleMemory(model.config, model.dtype, Arena(), kernels()[kernel], sequences)


def guided(labels: list[int], model: VAR) -> Tensor:
    """Told rows, then untold ones."""
    return torch.tensor(labels + [model.config.classes] * len(labels))


@contextmanager
def block_outputs(model: VAR) -> Iterator[list[Tensor]]:
    """What every block puts out, in the order in which they run."""
    seen: list[Tensor] = []

    def remember(_module: nn.Module, _inputs: Any, out: Tensor) -> None:
        seen.append(out)

    with ExitStack() as stack:
        for block in model.layers:
            stack.callback(block.register_forward_hook(remember).remove)
        yield seen
