"""Published files as they come: flat or nested, with prefixes, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.checkpoint import UnsafeWeightsError
from streamgen.models.var import VAR, VarConfig
from streamgen.models.var_loading import cast_products, load_var, refuse_pair, var_from
from streamgen.models.vqvae_loading import load_vqvae, vqvae_from
from streamgen.models.wan_keys import WeightKeyError
from streamgen.pipelines.image_files import ImageFiles
from tests.pipelines.image_models import make_var, make_vqvae, var_config, vq_config

State = dict[str, Tensor]


def published(model: VAR) -> State:
    """The state dict with the buffers that the published class saves."""
    config = model.config
    level = torch.cat([torch.full((side * side,), i) for i, side in enumerate(config.patches)])[None]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state |= {f"blocks.{i}.attn.zero_k_bias": torch.zeros(config.width) for i in range(config.depth)}
    return state | {"lvl_1L": level, "attn_bias_for_masking": torch.zeros(1, 1, config.tokens, config.tokens)}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"trainer": {"var_wo_ddp": state, "vae_local": {"x": torch.ones(1)}}, "epoch": 3},
        lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
        lambda state: {f"_orig_mod.{name}": tensor for name, tensor in state.items()},
        lambda state: {"trainer": {"var_ema": state, "var_wo_ddp": {n: t * 0 for n, t in state.items()}}},
    ],
    ids=["flat", "trainer", "module.", "_orig_mod.", "averaged"],
)
@pytest.mark.parametrize("shared", [False, True], ids=["own adaln", "shared adaln"])
def test_a_file_loads_however_it_was_saved(wrap: object, shared: bool, tmp_path: Path) -> None:
    model = make_var(var_config((1, 2, 3), shared))
    torch.save(wrap(published(model)), tmp_path / "var.pth")  # type: ignore[operator]
    loaded = load_var(tmp_path / "var.pth")
    assert loaded.config == model.config
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in loaded.state_dict().items())


def test_the_vqvae_of_a_trainer_loads_too(tmp_path: Path) -> None:
    model = make_vqvae()
    torch.save({"trainer": {"vae_local": model.state_dict(), "var_wo_ddp": {}}}, tmp_path / "ckpt.pth")
    assert load_vqvae(tmp_path / "ckpt.pth").config == model.config


def test_a_model_without_unit_length_queries_is_told_by_its_keys() -> None:
    state = published(make_var(var_config()))
    state = {name: tensor for name, tensor in state.items() if "scale_mul" not in name}
    with pytest.raises(WeightKeyError, match="how many heads this model of width 32 has"):
        var_from(state)
    wide = {name: tensor.clone() for name, tensor in VAR(plain_config()).state_dict().items()}
    model = var_from(wide | {"lvl_1L": state["lvl_1L"]})
    assert (model.config.unit_length, model.config.heads) == (False, 2)


def plain_config() -> VarConfig:
    return replace(var_config(), width=128, heads=2, unit_length=False)


def test_scales_are_told_without_the_buffer_where_they_are_published_ones() -> None:
    state = published(make_var(var_config((1, 2, 3, 4, 5, 6, 8, 10, 13, 16))))
    del state["lvl_1L"]
    assert var_from(state).config.patches[-1] == 16
    unknown = published(make_var(var_config((1, 3))))
    del unknown["lvl_1L"]
    with pytest.raises(WeightKeyError, match="10 tokens are cut into 2 scales"):
        var_from(unknown)


@pytest.mark.parametrize("sharing", ["stretches", "all", "none"])
def test_phis_are_told_by_their_names(sharing: str) -> None:
    phis = {"stretches": 4, "all": 1, "none": 3}[sharing]
    model = make_vqvae(replace(vq_config(), phis=phis, sharing=sharing))  # type: ignore[arg-type]
    assert vqvae_from(model.state_dict()).config == model.config
    if sharing == "none":
        refuse_pair(var_config(), model.config)
        with pytest.raises(UsageError, match="has 4 scales and the VQ-VAE was trained on 3"):
            refuse_pair(var_config((1, 2, 3, 4)), model.config)


def test_misfits_are_one_sentence() -> None:
    state, codes = published(make_var()), make_vqvae().state_dict()
    with pytest.raises(WeightKeyError, match="weights of a VQ-VAE and not of a VAR"):
        var_from(codes)
    with pytest.raises(WeightKeyError, match="weights of a VAR and not of a VQ-VAE"):
        vqvae_from(state)
    with pytest.raises(WeightKeyError, match="depth 2 and width 32: it lacks blocks.1.attn.q_bias"):
        var_from({name: tensor for name, tensor in state.items() if name != "blocks.1.attn.q_bias"})
    with pytest.raises(WeightKeyError, match="does not know blocks.0.attn.rope"):
        var_from(state | {"blocks.0.attn.rope": torch.ones(1)})
    with pytest.raises(WeightKeyError, match="class_emb.weight is missing"):
        var_from({"x": torch.ones(1)})


def test_a_file_that_could_run_code_is_not_read(tmp_path: Path) -> None:
    torch.save({"trainer": print}, tmp_path / "var.pth")
    with pytest.raises(UnsafeWeightsError, match="could run code"):
        load_var(tmp_path / "var.pth")


def test_products_are_cast_once_and_the_rest_stays_fp32() -> None:
    model = make_var(var_config(shared=True))
    cast_products(model, torch.bfloat16)
    kinds = {name: parameter.dtype for name, parameter in model.named_parameters()}
    wide = {name for name, dtype in kinds.items() if dtype == torch.float32}
    assert {name.split(".")[-1] for name in wide} == {
        "weight",
        "pos_start",
        "pos_1LC",
        "scale_mul_1H11",
        "ada_gss",
    }
    assert {name for name in wide if name.endswith("weight")} == {"class_emb.weight", "lvl_embed.weight"}


def test_a_folder_of_published_files_needs_one_of_each(tmp_path: Path) -> None:
    for name in ("var_d16.pth", "vae_ch160.pth"):
        (tmp_path / name).touch()
    found = ImageFiles.find(tmp_path)
    assert (found.var.name, found.vae.name, found.settings) == ("var_d16.pth", "vae_ch160.pth", None)
    (tmp_path / "var_d20.pth").touch()
    with pytest.raises(UsageError, match="holds 2 files: var_d16.pth, var_d20.pth; give the file itself"):
        ImageFiles.find(tmp_path)
    assert ImageFiles.find(tmp_path / "var_d20.pth").vae.name == "vae_ch160.pth"
    (tmp_path / "vae_ch160.pth").unlink()
    with pytest.raises(UsageError, match=r"one vae\* weight file and holds none; give vae="):
        ImageFiles.find(tmp_path / "var_d20.pth")


def test_safetensors_load_like_pickles(tmp_path: Path) -> None:
    model = make_var()
    save_file(published(model), tmp_path / "var.safetensors")
    assert load_var(tmp_path / "var.safetensors").config == model.config
