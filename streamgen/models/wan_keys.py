"""Names of published Wan tensors in the diffusers and transformers classes.

Nothing is reshaped or split: every function here answers "what is this key called over there?".
A trap: the official norm3 (before cross-attention) is diffusers' norm2; the official norm2 has no parameters.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from torch import Tensor

from streamgen.errors import StreamgenError

Rename = Callable[[str], str | None]


class WeightKeyError(StreamgenError, KeyError):
    """A weight key is missing, unknown or of another shape."""

    def __str__(self) -> str:
        return str(self.args[0])


_TRANSFORMER_MODULES = {
    "patch_embedding": "patch_embedding",
    "text_embedding.0": "condition_embedder.text_embedder.linear_1",
    "text_embedding.2": "condition_embedder.text_embedder.linear_2",
    "time_embedding.0": "condition_embedder.time_embedder.linear_1",
    "time_embedding.2": "condition_embedder.time_embedder.linear_2",
    "time_projection.1": "condition_embedder.time_proj",
    "blocks.{i}.norm3": "blocks.{i}.norm2",
    "blocks.{i}.ffn.0": "blocks.{i}.ffn.net.0.proj",
    "blocks.{i}.ffn.2": "blocks.{i}.ffn.net.2",
    "head.head": "proj_out",
}
_TRANSFORMER_TABLES = {
    "head.modulation": "scale_shift_table",
    "blocks.{i}.modulation": "blocks.{i}.scale_shift_table",
}
for _ours, _theirs in (("attn1", "self_attn"), ("attn2", "cross_attn")):
    for _new, _old in (("to_q", "q"), ("to_k", "k"), ("to_v", "v"), ("to_out.0", "o")):
        _TRANSFORMER_MODULES[f"blocks.{{i}}.{_theirs}.{_old}"] = f"blocks.{{i}}.{_ours}.{_new}"
    for _norm in ("norm_q", "norm_k"):
        _TRANSFORMER_TABLES[f"blocks.{{i}}.{_theirs}.{_norm}.weight"] = f"blocks.{{i}}.{_ours}.{_norm}.weight"

_UMT5 = {
    "token_embedding.weight": "shared.weight",
    "norm.weight": "encoder.final_layer_norm.weight",
    "blocks.{i}.norm1.weight": "encoder.block.{i}.layer.0.layer_norm.weight",
    "blocks.{i}.attn.q.weight": "encoder.block.{i}.layer.0.SelfAttention.q.weight",
    "blocks.{i}.attn.k.weight": "encoder.block.{i}.layer.0.SelfAttention.k.weight",
    "blocks.{i}.attn.v.weight": "encoder.block.{i}.layer.0.SelfAttention.v.weight",
    "blocks.{i}.attn.o.weight": "encoder.block.{i}.layer.0.SelfAttention.o.weight",
    "blocks.{i}.pos_embedding.embedding.weight": (
        "encoder.block.{i}.layer.0.SelfAttention.relative_attention_bias.weight"
    ),
    "blocks.{i}.norm2.weight": "encoder.block.{i}.layer.1.layer_norm.weight",
    "blocks.{i}.ffn.gate.0.weight": "encoder.block.{i}.layer.1.DenseReluDense.wi_0.weight",
    "blocks.{i}.ffn.fc1.weight": "encoder.block.{i}.layer.1.DenseReluDense.wi_1.weight",
    "blocks.{i}.ffn.fc2.weight": "encoder.block.{i}.layer.1.DenseReluDense.wo.weight",
}
_VAE_MODULES = {
    "conv1": "quant_conv",
    "conv2": "post_quant_conv",
    "encoder.conv1": "encoder.conv_in",
    "decoder.conv1": "decoder.conv_in",
    "encoder.head.0": "encoder.norm_out",
    "decoder.head.0": "decoder.norm_out",
    "encoder.head.2": "encoder.conv_out",
    "decoder.head.2": "decoder.conv_out",
}
_VAE_RESIDUAL = {"residual.0": "norm1", "residual.2": "conv1", "residual.3": "norm2", "residual.6": "conv2"}
_VAE_RESIDUAL |= {"shortcut": "conv_shortcut", "resample.1": "resample.1", "time_conv": "time_conv"}
_VAE_MIDDLE = {"0": "resnets.0", "1": "attentions.0", "2": "resnets.1"}


def transformer_key(name: str) -> str | None:
    """The diffusers `WanTransformer3DModel` name of an official transformer key, LoRA matrices included."""
    template, number = _template(name)
    if template in _TRANSFORMER_TABLES:
        return _TRANSFORMER_TABLES[template].replace("{i}", number)
    found = re.fullmatch(r"(.+?)\.(weight|bias|lora_[AB](?:\.\w+)?\.weight)", template)
    if found is None or found[1] not in _TRANSFORMER_MODULES:
        return None
    return f"{_TRANSFORMER_MODULES[found[1]]}.{found[2]}".replace("{i}", number)


def umt5_key(name: str) -> str | None:
    """The transformers `UMT5EncoderModel` name of an official text encoder key."""
    template, number = _template(name)
    return _UMT5[template].replace("{i}", number) if template in _UMT5 else None


def vae_keys(names: Iterable[str]) -> Rename:
    """Official VAE key -> diffusers `AutoencoderKLWan`; the names tell the levels of the flat list."""
    resamples = [int(m[1]) for name in names if (m := re.match(r"decoder\.upsamples\.(\d+)\.resample", name))]
    level = min(resamples) + 1 if resamples else 0

    def rename(name: str) -> str | None:
        module, _, leaf = name.rpartition(".")
        if module in _VAE_MODULES:
            return f"{_VAE_MODULES[module]}.{leaf}"
        if found := re.fullmatch(r"(encoder|decoder)\.middle\.([012])\.(.+)", module):
            part = found[3] if found[2] == "1" else _VAE_RESIDUAL.get(found[3])
            return part and f"{found[1]}.mid_block.{_VAE_MIDDLE[found[2]]}.{part}.{leaf}"
        found = re.fullmatch(r"(encoder\.down|decoder\.up)samples\.(\d+)\.(.+)", module)
        if found is None or found[3] not in _VAE_RESIDUAL:
            return None
        place = _place(found[1], int(found[2]), level)
        return f"{found[1]}_blocks.{place}.{_VAE_RESIDUAL[found[3]]}.{leaf}"

    return rename


def _place(side: str, index: int, level: int) -> str:
    """Where entry `index` of the flat list lives; a decoder level is some residual blocks and a resample."""
    if side == "encoder.down":
        return str(index)
    if not level:
        return f"0.resnets.{index}"
    block, within = divmod(index, level)
    return f"{block}.upsamplers.0" if within == level - 1 else f"{block}.resnets.{within}"


def convert(state: Mapping[str, Tensor], rename: Rename, what: str) -> dict[str, Tensor]:
    """The same tensors under their new names; an unknown key is an error that names it."""
    renamed = {name: rename(name) for name in state}
    unknown = [name for name, new in renamed.items() if new is None]
    if unknown:
        raise WeightKeyError(
            f"These keys are no part of {what}: {some(unknown)}; give a checkpoint of that model."
        )
    return {str(renamed[name]): tensor for name, tensor in state.items()}


def _template(name: str) -> tuple[str, str]:
    found = re.match(r"blocks\.(\d+)\.", name)
    return (f"blocks.{{i}}.{name[found.end() :]}", found[1]) if found else (name, "")


def some(names: Iterable[str], shown: int = 8) -> str:
    """The first names, and how many more there are."""
    names = sorted(names)
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
