"""How a stock transformers model attends through `Attend`s: a function in transformers' attention interface.

`stream_attention(model)` is called once after loading. From then on the model keeps no keys and values and
builds no masks: every call brings one `Attend` a layer, so two streams on one model cannot mix:

    stream_attention(model)                        # AutoModelForCausalLM, or the text model inside another
    with cache.stage(len(ids), Causal(), positions=positions) as stage:
        attends = kernel.plan([stage], q_heads)    # pipelines do this; models only see `attends`
        out = model(
            input_ids=ids[None],
            position_ids=positions[None],          # always: the model has no cache to count
            use_cache=False,
            attends=attends,                       # goes through the forward's kwargs; layer i takes [i]
        )
        stage.commit()

Keys arrive rotated. The order among the staged tokens is the mask of the stage; a sliding window is the
retention of the cache: a model with windows on some layers is handed the `Attend`s of two caches, mixed by
layer. The choice is written in the config of the model; a model that is to stay plain needs its own config.
Shapes: B streams, T tokens, Hq query heads, H key heads, D head dim.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel

from streamgen.errors import UsageError
from streamgen.models.attend import Attend, Capping

NAME = "streamgen"


class MissingAttendsError(UsageError):
    """A model that streams was called without `attends`, or does not hand them to its layers."""


def stream_attention(model: PreTrainedModel) -> None:
    """Let a model attend through the `attends` of each call; a call without them is refused."""
    if not model._supports_attention_backend:
        raise UsageError(
            f"{type(model).__name__} does not use transformers' attention interface, so it cannot stream; "
            "choose a model that does (Qwen, Mistral, Llama and Gemma models do)."
        )
    model.set_attn_implementation(NAME)


def attend_through(
    module: Any,  # a stock attention module, which knows its number
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    attends: Sequence[Attend] | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """query [B, Hq, T, D], key and value [B, H, T, D] of new tokens only -> [B, T, Hq, D]."""
    if attends is None:
        raise MissingAttendsError(
            "This model streams: its forward takes attends=[one Attend a layer]; "
            "for the plain forward load the model once more."
        )
    if s_aux is not None:
        raise UsageError(
            f"{type(module).__name__} wants learned sink scores, which streaming attention has not."
        )
    if attention_mask is not None or dropout:
        raise UsageError(
            "Streaming attention takes neither an attention_mask nor dropout: the stage orders its tokens. "
            "Leave the mask out and put the model in eval()."
        )
    head_dim = query.shape[-1]
    if scaling is not None and scaling != head_dim**-0.5:
        query = query * (scaling * head_dim**0.5)  # an Attend scales by 1/sqrt(D)
    attend = attends[module.layer_idx]
    if softcap and not (isinstance(attend, Capping) and attend.softcap == softcap):
        raise UsageError(
            f"{type(module).__name__} wants scores soft-capped at {softcap:g}, and these Attends do not cap "
            "them so; plan them with a kernel that was chosen for a Need(softcap=...)."
        )
    return attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)), None


AttentionInterface.register(NAME, attend_through)
