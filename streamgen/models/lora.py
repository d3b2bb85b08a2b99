"""LoRA adapters of published Wans, as PEFT adapters of the stock transformer.

Shapes: r rank, A [r, in], B [out, r].
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from streamgen.models.checkpoint import read_weights
from streamgen.models.published import refuse_misfits
from streamgen.models.wan_keys import convert, transformer_key

NESTS = ("generator_lora", "state_dict")


def load_lora(transformer: Any, path: Path, alpha: float | None = None, name: str = "default") -> None:
    """Add the adapter in `path` to a stock transformer; its strength is alpha / rank, or 1."""
    add_lora(transformer, adapter_state(read_weights(path, NESTS)), alpha, name)


def adapter_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adapter matrices under the names of the stock transformer, official names or stock ones given."""
    state = {re.sub(r"(lora_[AB])\.\w+\.weight$", r"\1.weight", key): t for key, t in state.items()}
    if any(".self_attn." in key or ".cross_attn." in key for key in state):
        return convert(state, transformer_key, "a LoRA of a Wan transformer")
    return dict(state)


def add_lora(
    transformer: Any, state: Mapping[str, Tensor], alpha: float | None = None, name: str = "default"
) -> None:
    """Add adapter matrices to the modules that they name; a matrix without a module is an error."""
    modules = dict(transformer.named_modules())
    pairs = sorted({key.rsplit(".lora_", 1)[0] for key in state})
    expected = {name for module in pairs for name in _matrices(module)}
    complete = [module for module in pairs if module in modules and _matrices(module) <= state.keys()]
    shapes = {module: _product_shape(module, state) for module in complete}
    refuse_misfits(
        "a LoRA of this transformer",
        missing=expected - state.keys(),
        unknown=[key for key in state if key not in expected or key.rsplit(".lora_", 1)[0] not in modules],
        misshapen=[
            f"{module} {list(shape)} instead of {list(modules[module].weight.shape)}"
            for module, shape in shapes.items()
            if shape != tuple(modules[module].weight.shape)
        ],
    )
    transformer.load_lora_adapter(_strengthened(state, alpha), prefix=None, adapter_name=name)


def _strengthened(state: Mapping[str, Tensor], alpha: float | None) -> dict[str, Tensor]:
    """The adapter at strength alpha / r, which PEFT would otherwise take to be 1."""
    if alpha is None:
        return dict(state)
    rank = {key.rsplit(".lora_", 1)[0]: len(a) for key, a in state.items() if ".lora_A." in key}
    return {
        key: matrix * (alpha / rank[key.rsplit(".lora_", 1)[0]]) if ".lora_B." in key else matrix
        for key, matrix in state.items()
    }


def _matrices(module: str) -> set[str]:
    return {f"{module}.lora_A.weight", f"{module}.lora_B.weight"}


def _product_shape(module: str, state: Mapping[str, Tensor]) -> tuple[int, int]:
    """Shape of B @ A, which is added to the weight of the module."""
    return state[f"{module}.lora_B.weight"].shape[0], state[f"{module}.lora_A.weight"].shape[1]
