"""Whether a stock model remembers through its `Attend`s, asked of the model in one pass.

What a class says of itself is not enough: some do not call transformers' attention interface in every layer,
and would write wrong text without an error.
Shapes: T = 2 tokens, Hq query heads, H key heads, D head dim.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.transformers_attention import MissingAttendsError

if TYPE_CHECKING:
    from streamgen.models.lm import LanguageModel

LIKE_THEM = "choose Llama, Mistral, Qwen, Gemma or their like"


class Witness:
    """An Attend by which each token sees itself alone; it knows what it was asked to remember."""

    def __init__(self, softcap: float) -> None:
        self.softcap = softcap
        self.keys: list[tuple[int, ...]] = []  # H, D of keys, D of values, call by call

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.store(k, v)
        return v.repeat_interleave(q.shape[2] // v.shape[2], dim=2)

    def store(self, k: Tensor, v: Tensor) -> None:
        self.keys.append((*k.shape[2:], v.shape[-1]))


def refuse_forgetful(model: "LanguageModel") -> None:
    """Refuse a model that has a state besides its attention, or layers that do not attend once each."""
    name, witnesses = type(model.model).__name__, [Witness(model.softcap) for _ in range(model.layers)]
    if model.model._is_stateful:
        raise UsageError(
            f"{name} hands a state from token to token besides its attention, which would be forgotten "
            f"between passes; {LIKE_THEM}."
        )
    ids = torch.zeros(1, 2, dtype=torch.long, device=model.device)
    places = torch.arange(2, device=model.device)[None]
    try:
        with torch.inference_mode():
            model(ids, places, witnesses)
    except MissingAttendsError as error:
        raise UsageError(_does_not_attend(name, model.layers, model.layers)) from error
    except UsageError as error:
        raise UsageError(f"{name} does not stream. {error}") from error
    odd = sum(len(witness.keys) != 1 for witness in witnesses)
    if odd:
        raise UsageError(_does_not_attend(name, odd, model.layers))
    sizes = {size for witness in witnesses for size in witness.keys}
    if sizes != {(model.kv_heads, model.head_dim, model.head_dim)}:
        raise UsageError(
            f"The layers of {name} remember {_listed(sizes)} and pages hold {model.kv_heads} heads of "
            f"{model.head_dim} for keys and values of every layer; {LIKE_THEM}."
        )


def _listed(sizes: set[tuple[int, ...]]) -> str:
    return ", ".join(f"{heads} heads of {keys} (values {values})" for heads, keys, values in sorted(sizes))


def _does_not_attend(name: str, odd: int, layers: int) -> str:
    return (
        f"{name} does not attend once through transformers' attention interface in {odd} of its {layers} "
        f"layers, so it would not remember a text; {LIKE_THEM}."
    )
