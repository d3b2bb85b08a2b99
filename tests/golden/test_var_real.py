"""VAR at its true sizes: the published key lists without memory, and d16 with weights from a seed recipe."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from streamgen.models.var_loading import STRUCTURE, refuse_pair, var_from
from streamgen.models.vqvae import VQVAE
from streamgen.models.vqvae_loading import STATISTICS, prepare, vqvae_from
from streamgen.pipelines.image_scales import Sampler, generate_scales
from tests.golden.fixtures import ROOT
from tests.golden.var_models import assert_within, block_outputs, guided, memory, tolerance

FOLDER = ROOT / "var_real"
State = dict[str, Tensor]


@cache
def facts(pattern: str) -> dict[str, Any]:
    (path,) = FOLDER.glob(pattern)
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def manifest() -> dict[str, Any]:
    return facts("*manifest*.json.gz")


def recipe() -> dict[str, Any]:
    return facts("*recipe*.json.gz")


def names(kind: str) -> list[str]:
    if not FOLDER.is_dir():
        return []
    return [
        name
        for name, entry in manifest()["checkpoints"].items()
        if name.startswith(kind) and "state_dict" in entry
    ]


def empty_state(name: str) -> State:
    """The published keys without numbers, but for the levels, which say how tokens are cut into scales."""
    entry = manifest()["checkpoints"][name]
    state = {
        key: torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        for key, (dtype, shape) in entry["state_dict"].items()
    }
    if "lvl_1L" in state:
        sides = entry["config"]["patch_nums"]
        state["lvl_1L"] = torch.cat([torch.full((s * s,), i) for i, s in enumerate(sides)])[None]
    return state


def count(model: nn.Module) -> int:
    return sum(prod(parameter.shape) for parameter in model.parameters())


@pytest.mark.parametrize("name", names("var"))
def test_var_real_key_lists_load(name: str) -> None:
    entry = manifest()["checkpoints"][name]
    expected, model = entry["config"], var_from(empty_state(name))
    found = model.config
    assert all(parameter.is_meta for parameter in model.parameters())
    assert count(model) == entry["parameter_count"]
    assert (found.depth, found.width, found.heads) == (
        expected["depth"], expected["embed_dim"], expected["num_heads"],
    )  # fmt: skip
    assert (list(found.patches), found.classes) == (expected["patch_nums"], expected["num_classes"])
    assert (found.shared_adaln, found.unit_length) == (expected["shared_aln"], expected["attn_l2_norm"])
    assert {key for key in entry["buffers"] if not STRUCTURE.fullmatch(key)} == set()
    for vae in names("vae"):
        refuse_pair(found, vqvae_from(empty_state(vae)).config)


@pytest.mark.parametrize("name", names("vae"))
def test_var_real_vae_key_lists_load(name: str) -> None:
    entry = manifest()["checkpoints"][name]
    expected, model = entry["config"], vqvae_from(empty_state(name))
    ladder = model.config.ladder
    assert count(model) == entry["parameter_count"] and entry["buffers"] == [STATISTICS]
    assert (model.config.vocabulary, ladder.latent) == (expected["vocab_size"], expected["z_channels"])
    assert (ladder.base, list(ladder.multiples), ladder.blocks) == (
        expected["ch"], expected["ch_mult"], expected["num_res_blocks"],
    )  # fmt: skip
    assert model.config.phis == expected["share_quant_resi"]


def drawn_state(part: str, name: str) -> State:
    """Weights by the recipe: a seed, a mean and a deviation for every key."""
    rules = next(rules for kind, rules in recipe()["weights"].items() if kind.split()[0] == part)
    shapes = manifest()["checkpoints"][name]["state_dict"]
    state = {}
    for key, (seed, mean, deviation) in rules.items():
        numbers = np.random.RandomState(seed).standard_normal(shapes[key][1])
        numbers *= deviation
        numbers += mean
        state[key] = torch.from_numpy(numbers.astype(np.float32))
        told = recipe()["sha256_of_float32_bytes"].get(f"{part}:{key}")
        assert told in (None, hashlib.sha256(state[key].numpy().tobytes()).hexdigest()), key
    return state


def size(config: dict[str, Any], kind: str) -> str:
    """The published checkpoint that has the sizes of the recipe."""
    want = {key: value for key, value in config.items() if value is not None}
    for name in names(kind):
        have = manifest()["checkpoints"][name]["config"]
        if all(have[key] == value for key, value in want.items() if key in have):
            return name
    raise AssertionError(f"the manifest has no {kind} like {config}")


@pytest.fixture(scope="module")
def vae() -> Iterator[VQVAE]:
    model = vqvae_from(drawn_state("vae", size(recipe()["config"]["vae"], "vae")))
    prepare(model, torch.float32)
    yield model


def expected(name: str) -> State:
    (path,) = FOLDER.glob(f"*{name}*expected.safetensors")
    return load_file(path)


needed = pytest.mark.skipif(not FOLDER.is_dir(), reason="this set of golden numbers has no var_real")


@needed
@torch.inference_mode()
def test_var_real_vae_matches_the_public_code(vae: VQVAE) -> None:
    truth, patches = expected("vae"), recipe()["config"]["var"]["patch_nums"]
    latent = vae.latent(truth["image_u8"] / 255 * 2 - 1)
    encoded = vae.quantize.encode(latent, patches)
    assert torch.equal(torch.cat(encoded.tokens, 1), truth["enc_tokens"].long())
    for name, tensor in {"enc_f": latent, "recon": vae.decode(encoded.sums[-1])}.items():
        assert_within(tensor, truth[name], tolerance(recipe(), name), name)


@needed
@torch.inference_mode()
def test_var_real_greedy_run_matches_the_public_code(vae: VQVAE) -> None:
    words = recipe()["steps"]["greedy"]
    label, cfg = int(re.search(r"label (\d+)", words)[1]), float(re.search(r"cfg=([\d.]+)", words)[1])  # type: ignore[index]
    truth = expected("d16")
    model = var_from(drawn_state("var", size(recipe()["config"]["var"], "var")))
    sampler = Sampler(vae, model.config.scales, cfg, 1, 0.0, False, (torch.Generator().manual_seed(0),))
    raw: list[Tensor] = []

    def choose(scale: int, logits: Tensor) -> Any:
        raw.append(logits)
        return sampler(scale, logits)

    with block_outputs(model) as blocks, memory(model, "sdpa", 2) as room:
        done = list(generate_scales(model, vae, guided([label], model), room, choose))
    assert torch.equal(torch.cat([scale.tokens for scale in done], 1), truth["greedy.tokens"].long())
    seen = {"greedy.image": (vae.decode(done[-1].latent) + 1) / 2}
    for scale, logits in enumerate(raw):
        seen[f"greedy.logits_raw.s{scale}"] = logits
        for name in truth:
            if every := re.fullmatch(rf"greedy\.logits_raw\.s{scale}\.every(\d+)", name):
                seen[name] = logits[:, :: int(every[1])]
        seen[f"greedy.f_hat.s{scale}"] = done[scale].latent
        for block in range(model.config.depth):
            seen[f"greedy.hidden.s{scale}.block{block}"] = blocks[scale * model.config.depth + block]
    for name in seen.keys() & truth.keys():
        assert_within(seen[name], truth[name], tolerance(recipe(), name), name)
    assert {"greedy.image", "greedy.f_hat.s0"} <= seen.keys() & truth.keys()
