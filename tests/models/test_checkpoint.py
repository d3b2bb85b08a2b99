"""Reading weight files: nests, prefixes, and pickles that want to run."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from streamgen.errors import UsageError
from streamgen.models.checkpoint import UnsafeWeightsError, read_weights
from streamgen.models.wan_keys import WeightKeyError

WEIGHTS = {"blocks.0.a.weight": torch.ones(2), "head.bias": torch.zeros(1)}


def same(state: dict[str, Any]) -> bool:
    return state.keys() == WEIGHTS.keys() and all(torch.equal(state[name], WEIGHTS[name]) for name in WEIGHTS)


def prefixed(prefix: str) -> dict[str, Any]:
    return {prefix + name: tensor for name, tensor in WEIGHTS.items()}


@pytest.mark.parametrize("nest", ["generator", "generator_ema", "model", "state_dict"])
@pytest.mark.parametrize(
    "prefix", ["", "model.", "module.", "module.model.", "model._fsdp_wrapped_module.", "_orig_mod."]
)
def test_published_nests_and_prefixes_are_understood(tmp_path: Path, nest: str, prefix: str) -> None:
    torch.save({nest: prefixed(prefix), "step": 3}, tmp_path / "model.pt")
    assert same(read_weights(tmp_path / "model.pt"))


def test_prefixes_in_the_middle_of_a_name_are_understood(tmp_path: Path) -> None:
    names = {
        "model.blocks.0._fsdp_wrapped_module.a.weight": torch.ones(2),
        "model.head._orig_mod.bias": torch.zeros(1),
    }
    torch.save({"generator": names, "critic": {"x": torch.ones(1)}}, tmp_path / "model.pt")
    assert same(read_weights(tmp_path / "model.pt"))


def test_averaged_weights_go_first_and_others_can_be_named(tmp_path: Path) -> None:
    other = {name: tensor + 5 for name, tensor in WEIGHTS.items()}
    torch.save({"generator": other, "generator_ema": WEIGHTS}, tmp_path / "model.pt")
    assert same(read_weights(tmp_path / "model.pt"))
    assert not same(read_weights(tmp_path / "model.pt", nests=("generator",)))


def test_a_flat_state_dict_and_a_nest_in_a_nest_are_understood(tmp_path: Path) -> None:
    torch.save(WEIGHTS, tmp_path / "flat.pth")
    torch.save({"model": {"state_dict": prefixed("module.")}}, tmp_path / "deep.bin")
    assert same(read_weights(tmp_path / "flat.pth")) and same(read_weights(tmp_path / "deep.bin"))


def test_safetensors_are_read_alone_in_a_folder_and_in_shards(tmp_path: Path) -> None:
    save_file(prefixed("model."), tmp_path / "one.safetensors")
    assert same(read_weights(tmp_path / "one.safetensors")) and same(read_weights(tmp_path))
    shards = tmp_path / "shards"
    shards.mkdir()
    for number, (name, tensor) in enumerate(WEIGHTS.items()):
        save_file({name: tensor}, shards / f"{number}.safetensors")
    (shards / "x.safetensors.index.json").write_text(
        '{"weight_map": {"blocks.0.a.weight": "0.safetensors", "head.bias": "1.safetensors"}}'
    )
    assert same(read_weights(shards))
    (shards / "1.safetensors").unlink()
    with pytest.raises(UsageError, match=r"lacks 1\.safetensors of its index"):
        read_weights(shards)


class Hostile:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_a_hostile_pickle_does_not_run(tmp_path: Path) -> None:
    torch.save({"generator": WEIGHTS, "extra": Hostile(tmp_path / "ran")}, tmp_path / "bad.pt")
    with pytest.raises(UnsafeWeightsError, match="could run code when it is read; it was not read"):
        read_weights(tmp_path / "bad.pt")
    assert not (tmp_path / "ran").exists()


def test_a_file_without_weights_says_what_it_holds(tmp_path: Path) -> None:
    torch.save({"optimizer": {}, "step": 3}, tmp_path / "model.pt")
    with pytest.raises(WeightKeyError, match="holds optimizer, step and no weights under generator_ema or"):
        read_weights(tmp_path / "model.pt")
    with pytest.raises(UsageError, match="is no weight file"):
        read_weights(tmp_path / "model.onnx")


def test_two_keys_that_become_one_are_an_error(tmp_path: Path) -> None:
    both = {"a._orig_mod.weight": torch.ones(1), "a.weight": torch.ones(1)}
    torch.save(both, tmp_path / "model.pt")
    with pytest.raises(WeightKeyError, match="become one without their prefixes: a.weight"):
        read_weights(tmp_path / "model.pt")
