"""A stock transformers language model (Llama, Mistral, Qwen, Gemma and their like) that streams.

The model is the one that transformers loads, so LoRA, quantisation and placement keep working; only its
attention goes through the `Attend`s of each call. Shapes: B texts, T new tokens, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from streamgen.asked import whole
from streamgen.errors import UsageError
from streamgen.models.attend import Attend
from streamgen.models.attend_check import LIKE_THEM, refuse_forgetful
from streamgen.models.published import refuse_misfits
from streamgen.models.rope import reach_of
from streamgen.models.transformers_attention import stream_attention

FACTS = ("num_hidden_layers", "num_attention_heads", "vocab_size", "max_position_embeddings")
FULL, SLIDING = "full_attention", "sliding_attention"


class LanguageModel:
    """Tokens in, logits out; what it remembers of a text belongs to the caller."""

    def __init__(self, model: Any, windows: Sequence[int | None] | None = None) -> None:
        """windows: keys that a layer sees, the current one included (None = all), repeated over the layers.

        Left out, they are those of the model's config. A model that would not remember is refused: it is
        asked in a pass of two tokens, unless it is on the meta device.
        """
        attention, config = _first_attention(model), model.config
        self.model = model
        self.layers: int = config.num_hidden_layers
        self.windows = _tiled(windows, self.layers) if windows is not None else stock_windows(config)
        self.q_heads: int = config.num_attention_heads
        self.head_dim: int = attention.head_dim
        self.kv_heads: int = self.q_heads // attention.num_key_value_groups
        self.vocabulary: int = config.vocab_size
        self.reach = reach_of(config, type(model).__name__)
        self.softcap: float = getattr(config, "attn_logit_softcapping", None) or 0.0
        stream_attention(model)
        if self.device.type != "meta":
            refuse_forgetful(self)

    @property
    def longest(self) -> int:
        """The most tokens of a text."""
        return self.reach.tokens

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    @property
    def stops(self) -> frozenset[int]:
        """Tokens that end a text."""
        generation = self.model.generation_config
        ends = self.model.config.eos_token_id if generation is None else generation.eos_token_id
        return frozenset(ends if isinstance(ends, list) else () if ends is None else (ends,))

    def __call__(self, ids: Tensor, positions: Tensor, attends: Sequence[Attend], last: int = 0) -> Tensor:
        """ids and positions [B, T] -> logits [B, T, V], or of the `last` tokens only."""
        if self.reach.turns:  # a guess may stand behind the longest text; it must not turn the keys of others
            positions = positions.clamp(max=self.longest - 1)
        out = self.model(
            input_ids=ids,
            position_ids=positions,
            use_cache=False,
            logits_to_keep=last,
            attends=attends,
        )
        return out.logits


def _first_attention(model: Any) -> Any:
    config = getattr(model, "config", None)
    layers = getattr(model.get_decoder(), "layers", None) if hasattr(model, "get_decoder") else None
    attention = getattr(layers[0], "self_attn", None) if layers else None
    lacking = [fact for fact in FACTS if not hasattr(config, fact)]
    if lacking or not hasattr(attention, "num_key_value_groups"):
        raise UsageError(
            f"{type(model).__name__} is not built like the models that stream here (decoder layers with a "
            f"self_attn that knows its key heads, and their number and sizes in the config); {LIKE_THEM}."
        )
    return attention


def load_language_model(
    folder: Path, dtype: torch.dtype, device: str = "cpu", windows: Sequence[int | None] | None = None
) -> LanguageModel:
    """From a transformers folder on this machine; a missing, unknown or misshapen weight is an error."""
    from transformers import AutoModelForCausalLM

    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder} has no config.json; give the folder of a language model in transformers' layout."
        )
    model, info = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=dtype,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
    )
    refuse_misfits(
        f"the {type(model).__name__} that {folder} describes",
        missing=info["missing_keys"],
        unknown=info["unexpected_keys"],
        misshapen=[str(name) for name in info["mismatched_keys"]],
    )
    return LanguageModel(model.requires_grad_(False).eval().to(device), windows)


def stock_windows(config: Any) -> tuple[int | None, ...]:
    """What each layer of a stock model sees: a window counts the current token, as in transformers."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:  # Mistral: all layers or none
        return (window,) * config.num_hidden_layers
    unknown = sorted(set(kinds) - {FULL, SLIDING})
    if unknown:
        raise UsageError(
            f"{config.model_type} has layers of kind {', '.join(unknown)}, which have no memory here; "
            f"choose a model whose layers are {FULL} or {SLIDING}."
        )
    return tuple(window if kind == SLIDING else None for kind in kinds)


def _tiled(windows: Any, layers: int) -> tuple[int | None, ...]:
    listed = list(windows) if isinstance(windows, Sequence) and not isinstance(windows, str) else None
    if not listed or layers % len(listed):
        raise UsageError(
            f"Windows {windows!r:.60} do not fit {layers} layers; give a list of whole numbers from 1 on (or "
            "None for no window), as many as divide the layers."
        )
    settled = [
        None if window is None else whole("window", window, f"does not fit {layers} layers")
        for window in listed
    ]
    return tuple(settled) * (layers // len(settled))
