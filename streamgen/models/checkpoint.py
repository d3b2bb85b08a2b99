"""Weight files as flat dictionaries: safetensors first, pickles only where nothing in them can run.

Published checkpoints nest their tensors ({"generator_ema": ...}) and prefix their names (FSDP, compile,
a wrapper); what is left after that has to be understood key by key.
"""

import json
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from streamgen.errors import StreamgenError, UsageError
from streamgen.models.wan_keys import WeightKeyError, some

NESTS = ("generator_ema", "generator", "model", "state_dict")  # averaged weights are the ones to show
PICKLES = (".pt", ".pth", ".bin", ".ckpt")
_LEADING = ("model.", "module.", "base_model.model.")
_ANYWHERE = re.compile(r"(?:_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module)\.")


class UnsafeWeightsError(StreamgenError):
    """A pickle wants to run code."""


def read_weights(path: Path, nests: Sequence[str] = NESTS) -> dict[str, Tensor]:
    """The tensors of a file or a folder of safetensors; of the nests, the first that is there counts."""
    if path.is_dir():
        return strip_prefixes(_read_folder(path))
    if path.suffix == ".safetensors":
        return strip_prefixes(load_file(path))
    if path.suffix in PICKLES:
        return strip_prefixes(unnest(_read_pickle(path), path, nests))
    raise UsageError(
        f"{path} is no weight file; give a folder, .safetensors, or one of {', '.join(PICKLES)}."
    )


def unnest(tree: Any, path: Path, nests: Sequence[str] = NESTS) -> dict[str, Tensor]:
    """The state dict inside the usual nests."""
    while not _is_state(tree):
        found = [name for name in nests if isinstance(tree, Mapping) and isinstance(tree.get(name), Mapping)]
        if not found:
            holds = some(str(key) for key in tree) if isinstance(tree, Mapping) else type(tree).__name__
            raise WeightKeyError(
                f"{path} holds {holds} and no weights under {' or '.join(nests)}; "
                "save the state dict alone, or under one of these names."
            )
        tree = tree[found[0]]
    return dict(tree)


def strip_prefixes(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors without what wrappers put before or into their names."""
    names = {name: _ANYWHERE.sub("", name) for name in state}
    while any(_all_begin(names.values(), prefix) for prefix in _LEADING):
        prefix = next(p for p in _LEADING if _all_begin(names.values(), p))
        names = {old: new.removeprefix(prefix) for old, new in names.items()}
    if len(set(names.values())) < len(names):
        seen: set[str] = set()
        twice = [name for name in names.values() if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        raise WeightKeyError(
            f"Two keys become one without their prefixes: {some(twice)}; save one model a file."
        )
    return {new: state[old] for old, new in names.items()}


def _all_begin(names: Iterable[str], prefix: str) -> bool:
    names = list(names)
    return bool(names) and all(name.startswith(prefix) for name in names)


def _is_state(tree: Any) -> bool:
    return (
        isinstance(tree, Mapping) and bool(tree) and all(isinstance(value, Tensor) for value in tree.values())
    )


def _read_pickle(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UnsafeWeightsError(
            f"{path} holds more than tensors, so it could run code when it is read; it was not read. "
            "Ask for a safetensors file, or convert it where you trust it."
        ) from error


def _read_folder(folder: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for part in _parts(folder):
        state |= load_file(part)
    return state


def _parts(folder: Path) -> list[Path]:
    indexes = sorted(folder.glob("*.safetensors.index.json"))
    if indexes:
        listed = set(json.loads(indexes[0].read_text())["weight_map"].values())
        missing = [name for name in sorted(listed) if not (folder / name).is_file()]
        if missing:
            raise UsageError(f"{folder} lacks {some(missing)} of its index; fetch the missing files.")
        return [folder / name for name in sorted(listed)]
    parts = sorted(folder.glob("*.safetensors"))
    if len(parts) != 1:
        raise UsageError(f"{folder} holds {len(parts)} safetensors files and no index; give the file itself.")
    return parts
