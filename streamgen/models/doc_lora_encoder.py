"""The context encoder of Doc-to-LoRA: the base model without its last layer, and no second copy of it.

Shapes: C chunks, S tokens, D model width, L layers of the base model.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from streamgen.models.attend import Attend
from streamgen.models.doc_lora_apply import refuse_adapted


class Listener(nn.Module):
    """A layer of the model, which shares its weights, and a list of what went into it."""

    def __init__(self, layer: nn.Module, heard: list[Tensor]) -> None:
        super().__init__()
        self.layer = layer
        self.heard = heard

    def forward(self, hidden_states: Tensor, *arguments: Any, **named: Any) -> Any:
        self.heard.append(hidden_states)
        return self.layer(hidden_states, *arguments, **named)


def features(
    model: Any,
    ids: Tensor,
    mask: Tensor | None = None,
    attends: Sequence[Attend] | None = None,
    start: int = 0,
) -> list[Tensor]:
    """What goes into each layer of a causal model that reads ids [C, S]: L tensors [C, S, D].

    The last one is what the layer before made, *after the final norm*: the published encoder is the model
    cut short, and the norm of a stock model follows its last layer. A model that streams needs `attends`,
    and `start`, the place of the first of these tokens.
    """
    refuse_adapted(model)
    heard: list[Tensor] = []
    reader = _cut_short(model.get_decoder(), heard)
    extra = {} if attends is None else {"attends": attends, "position_ids": _places(ids, start)}
    out = reader(input_ids=ids, attention_mask=mask, use_cache=False, **extra)
    return [*heard, out.last_hidden_state]


def _cut_short(decoder: Any, heard: list[Tensor]) -> Any:
    """The decoder without its last layer: another list of the same layers, and nothing of it is changed."""
    short = copy.copy(decoder)
    short._modules = dict(decoder._modules)
    short.layers = nn.ModuleList(Listener(layer, heard) for layer in decoder.layers[:-1])
    return short


def _places(ids: Tensor, start: int) -> Tensor:
    return torch.arange(start, start + ids.shape[1], device=ids.device).expand_as(ids)
