"""Doc-to-LoRA hypernetworks from their files: sizes are told from the tensors, every key has to fit.

Three layouts: the published pickle, a safetensors file with the same keys, and a folder of ours, which holds
`doc_lora.safetensors` and in `doc_lora.json` what tensors cannot tell.
"""

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from streamgen.errors import StreamgenWarning, UsageError
from streamgen.models.checkpoint import strip_prefixes
from streamgen.models.doc_lora import HEAD_DIM, DocLoraConfig, HyperNetwork, Target
from streamgen.models.doc_lora_chunks import Affixes, published_affixes
from streamgen.models.doc_lora_pickle import read_pickle
from streamgen.models.published import fill
from streamgen.models.wan_keys import WeightKeyError

PICKLE, WEIGHTS, FACTS = "pytorch_model.bin", "doc_lora.safetensors", "doc_lora.json"
NOT_WEIGHTS = ("base_model_name_or_path", "hypernet_config", "ctx_encoder_args")
NEEDED = ("aggregator_config", "feature_sizes", "lora_config", "layer_indices")
ENCODER_NEEDED = ("ctx_encoder_type", "ctx_encoder_model_name_or_path", "quantize_ctx_encoder")
# Switches of the training code, and the one position in which a checkpoint is understood here.
SWITCHES: dict[str, Any] = {
    "use_light_weight_lora": False,
    "per_rank_gen": True,
    "use_per_rank_bias": False,
    "per_layer_processing": True,
    "use_token_mixing": False,
    "extra_modules": None,
}
AGGREGATOR = {
    "aggregator_type": "perceiver",
    "num_extra_modules": 0,
    "num_self_attn_per_block": 0,
    "shared_weights": False,
    "layer_to_layer_ctx_encoder": True,
}


@dataclass(frozen=True)
class Loaded:
    """A hypernetwork, the model it was trained with, and the tokens around its documents, where known."""

    network: HyperNetwork
    base: str | None
    affixes: Affixes | None


def load_doc_lora(path: Path) -> Loaded:
    """A hypernetwork from a file or a folder on this machine."""
    if path.is_dir():
        if (path / WEIGHTS).is_file():
            return _from_folder(path)
        if not (path / PICKLE).is_file():
            raise UsageError(f"{path} holds neither {WEIGHTS} nor {PICKLE}; give the folder of a checkpoint.")
        path = path / PICKLE
    if not path.is_file():
        raise UsageError(f"There is no {path}; give the file or the folder of a Doc-to-LoRA checkpoint.")
    if path.suffix == ".safetensors":
        return Loaded(network_from(load_file(path)), None, None)
    return _from_pickle(path)


def save_doc_lora(folder: Path, network: HyperNetwork, base: str | None, affixes: Affixes) -> None:
    """Write the folder layout of ours."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: t.contiguous() for name, t in network.state_dict().items()}, folder / WEIGHTS)
    facts = {
        "alpha": network.config.alpha,
        "head_dim": network.config.head_dim,
        "targets": {target.name: [target.inputs, target.outputs] for target in network.config.targets},
        "base": base,
        "prefix": list(affixes.prefix),
        "suffix": list(affixes.suffix),
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def network_from(
    state: Mapping[str, Tensor],
    alpha: float | None = None,
    head_dim: int = HEAD_DIM,
    sizes: Mapping[str, tuple[int, int]] | None = None,
) -> HyperNetwork:
    """The hypernetwork whose tensors these are.

    Its strength is 2 r^1.5 unless given, as in all published ones. `sizes` (inputs, outputs of a module) are
    needed only where no learned block tells them.
    """
    state = {name: tensor.float() for name, tensor in strip_prefixes(state).items()}
    config = config_of(state, alpha, head_dim, sizes or {})
    network: HyperNetwork = fill(lambda: HyperNetwork(config), state, "a Doc-to-LoRA hypernetwork")
    return network


def config_of(
    state: Mapping[str, Tensor],
    alpha: float | None,
    head_dim: int,
    sizes: Mapping[str, tuple[int, int]],
) -> DocLoraConfig:
    """Every size, read off the tensors."""
    encoder, decoder = "aggregator.perceiver.encoder", "aggregator.perceiver.decoder"
    names = sorted(found[1] for name in state if (found := re.fullmatch(r"scaler_A\.(.+)", name)))
    if not names:
        raise WeightKeyError(
            "No scaler_A is among these keys, so nothing would be adapted; give a checkpoint."
        )
    _, layers, rank, _ = _shape(state, f"scaler_A.{names[0]}")
    queries, latent = _shape(state, f"{encoder}.latents_q")
    attention = f"{encoder}.layers.0.self_attn"
    return DocLoraConfig(
        layers=layers,
        width=_shape(state, "aggregator.perceiver.modality_projection.gate_proj.weight")[1],
        latent=latent,
        queries=queries,
        encoder_layers=_count(state, rf"{encoder}\.layers\.(\d+)\."),
        decoder_layers=_count(state, rf"{decoder}\.layers\.(\d+)\."),
        mlps=_count(state, r"layers\.(\d+)\."),
        rank=rank,
        alpha=2 * rank**1.5 if alpha is None else alpha,
        targets=tuple(_target(name, state, sizes) for name in names),
        heads=_shape(state, f"{attention}.q_proj.weight")[0] // head_dim,
        kv_heads=_shape(state, f"{attention}.k_proj.weight")[0] // head_dim,
        bias=f"bias_A.{names[0]}" in state,
        head_dim=head_dim,
    )


def _target(name: str, state: Mapping[str, Tensor], sizes: Mapping[str, tuple[int, int]]) -> Target:
    if name in sizes and f"bias_A.{name}" not in state:
        return Target(name, *sizes[name])
    return Target(name, _shape(state, f"bias_A.{name}")[2], _shape(state, f"bias_B.{name}")[2])


def _from_folder(folder: Path) -> Loaded:
    path = folder / FACTS
    if not path.is_file():
        raise UsageError(f"{folder} holds {WEIGHTS} and no {FACTS}, which says its strength; add it.")
    facts = json.loads(path.read_text(encoding="utf-8"))
    wrong = facts.keys() ^ {"alpha", "head_dim", "targets", "base", "prefix", "suffix"}
    if wrong:
        raise UsageError(
            f"{path} should hold alpha, head_dim, targets, base, prefix, suffix; "
            f"look at {', '.join(sorted(wrong))}."
        )
    sizes = {name: (inputs, outputs) for name, (inputs, outputs) in facts["targets"].items()}
    network = network_from(load_file(folder / WEIGHTS), facts["alpha"], facts["head_dim"], sizes)
    return Loaded(network, facts["base"], Affixes(tuple(facts["prefix"]), tuple(facts["suffix"])))


def _from_pickle(path: Path) -> Loaded:
    tree = read_pickle(path)
    missing = [name for name in NOT_WEIGHTS if name not in tree]
    if missing:
        raise WeightKeyError(f"{path} lacks {', '.join(missing)}; give the pickle that its trainer saved.")
    base, config, encoder = (tree.pop(name) for name in NOT_WEIGHTS)
    strangers = [name for name, value in tree.items() if not isinstance(value, Tensor)]
    if strangers:
        raise WeightKeyError(f"{path} holds {', '.join(strangers)}, which are neither weights nor settings.")
    _require(path, "hypernet_config", config, *NEEDED)
    _require(path, "lora_config", config["lora_config"], "lora_alpha")
    _require(path, "ctx_encoder_args", encoder, *ENCODER_NEEDED)
    refuse_switches(path, config, SWITCHES)
    refuse_switches(path, config["aggregator_config"], AGGREGATOR)
    inputs, outputs = config["feature_sizes"]
    sizes = {name: (inputs[name], outputs[name]) for name in inputs}
    network = network_from(tree, config["lora_config"]["lora_alpha"], sizes=sizes)
    _refuse_other_layers(path, config, network.config.layers)
    refuse_other_encoder(path, encoder, base)
    return Loaded(network, base, None)


def affixes_of(loaded: Loaded) -> Affixes:
    """The tokens around a document: those of its folder, or the published ones of its base model."""
    return loaded.affixes or published_affixes(loaded.base or "")


def _require(path: Path, name: str, fields: object, *needed: str) -> None:
    missing = [field for field in needed if not isinstance(fields, Mapping) or field not in fields]
    if missing:
        raise WeightKeyError(
            f"{path} has no {', '.join(missing)} in its {name}; give the pickle that its trainer saved."
        )


def refuse_switches(path: Path, fields: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Fields that a file lacks had these values when it was written."""
    wrong = {name: fields[name] for name in known if name in fields and fields[name] != known[name]}
    if wrong:
        said = ", ".join(f"{name}={value!r} (known: {known[name]!r})" for name, value in wrong.items())
        raise UsageError(f"{path} was trained with {said}; give a checkpoint of the published architecture.")


def _refuse_other_layers(path: Path, config: Mapping[str, Any], layers: int) -> None:
    indices = [int(index) for index in config["layer_indices"]]
    if indices != list(range(layers)):
        raise UsageError(f"{path} adapts layers {indices} only; give a checkpoint that adapts all of them.")


def refuse_other_encoder(path: Path, encoder: Mapping[str, Any], base: str) -> None:
    kind = encoder["ctx_encoder_type"]
    if kind != "per_layer_activations" or encoder["ctx_encoder_model_name_or_path"] not in (None, base):
        raise UsageError(
            f"{path} reads documents with {encoder['ctx_encoder_model_name_or_path']} ({kind}); here they "
            f"are read by the layers of the base model, {base}. Give a checkpoint that was trained so."
        )
    if encoder["quantize_ctx_encoder"]:
        warnings.warn(
            f"{path} was trained on what a 4-bit copy of {base} reads; full weights read nearly the same.",
            StreamgenWarning,
            stacklevel=2,
        )


def _shape(state: Mapping[str, Tensor], name: str) -> tuple[int, ...]:
    if name not in state:
        raise WeightKeyError(f"The key {name} is missing, and without it the size of the model is unknown.")
    return tuple(state[name].shape)


def _count(state: Mapping[str, Tensor], pattern: str) -> int:
    return len({int(found[1]) for name in state if (found := re.match(pattern, name))})
