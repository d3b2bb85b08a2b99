"""Multi-head attention to grouped-query attention by mean pooling (GQA, 2305.13245, section 2.1).

Shapes: H key heads before, G after, d head dim, D model width. Head g becomes the mean of the H/G
consecutive heads of its group, which is how transformers repeats heads: query head h of Hq reads key head
h // (Hq / G). The keys and values of a token then take G/H of their bytes. The paper trains a little (5 % of
the steps) afterwards; without that a converted model is a poorer one.
"""

import copy
from typing import Any

from einops import reduce
from torch import Tensor, nn

from streamgen.errors import UsageError
from streamgen.models.published import fill

POOLED = ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias", "k_norm.weight", "k_norm.bias")


def to_grouped_query(model: Any, kv_heads: int) -> Any:
    """A model of the same class with G key heads; every other tensor is shared with the given one."""
    config = copy.deepcopy(model.config)
    text = config.get_text_config(decoder=True)
    refuse_heads(getattr(text, "num_key_value_heads", None), kv_heads, type(model).__name__)
    state = dict(model.state_dict())
    for name, module in _attentions(model):
        for leaf in POOLED:
            key = f"{name}.{leaf}"
            if key in state:
                state[key] = _pooled(state[key], key, module, text.num_key_value_heads, kv_heads)
    text.num_key_value_heads = kv_heads
    converted = fill(lambda: type(model)(config), state, f"a {type(model).__name__} of {kv_heads} key heads")
    converted.tie_weights()
    converted.generation_config = copy.deepcopy(model.generation_config)
    return converted


def refuse_heads(there: int | None, kv_heads: int, what: str) -> None:
    """Groups are of equal size, and a converted model has no more heads than it had."""
    if there is None:
        raise UsageError(f"A {what} says nothing of key heads, so it cannot be converted to grouped queries.")
    if kv_heads < 1 or there % kv_heads:
        divisors = ", ".join(str(g) for g in range(1, there + 1) if there % g == 0)
        raise UsageError(f"{there} key heads cannot be pooled into {kv_heads}; choose one of {divisors}.")


def pool_heads(weight: Tensor, head_dim: int, heads: int, groups: int) -> Tensor:
    """[(H d), ...] -> [(G d), ...]: means of consecutive heads, taken in float64 and rounded once."""
    rows = weight.flatten(1) if weight.ndim > 1 else weight[:, None]
    means = reduce(rows.double(), "(g m d) c -> (g d) c", "mean", g=groups, m=heads // groups, d=head_dim)
    return means.reshape(-1, *weight.shape[1:]).to(weight.dtype)


def _attentions(model: Any) -> list[tuple[str, nn.Module]]:
    """The self-attention modules of the decoder, with their names from the root of the model."""
    names = {id(module): name for name, module in model.named_modules()}
    found = []
    for number, layer in enumerate(model.get_decoder().layers):
        inside = [m for m in layer.modules() if {"k_proj", "v_proj"} <= m._modules.keys()]
        if len(inside) != 1:
            raise UsageError(
                f"Layer {number} of this {type(model).__name__} has {len(inside)} modules with a k_proj and "
                "a v_proj of their own, and one is needed; fused projections have to be split first."
            )
        found.append((names[id(inside[0])], inside[0]))
    return found


def _pooled(tensor: Tensor, key: str, attention: nn.Module, heads: int, groups: int) -> Tensor:
    head_dim = attention.head_dim
    assert isinstance(head_dim, int), f"{type(attention).__name__} has a head_dim of {head_dim!r}"
    if not tensor.is_floating_point():
        raise UsageError(f"{key} is quantised ({tensor.dtype}); convert the model before it is quantised.")
    if "k_norm" in key and tensor.shape[0] == head_dim and heads * head_dim != head_dim:
        return tensor  # one norm that all heads share
    if tensor.shape[0] != heads * head_dim:
        raise UsageError(
            f"{key} has {tensor.shape[0]} rows and {heads} heads of {head_dim} were expected; "
            "layers with heads of their own cannot be converted."
        )
    return pool_heads(tensor, head_dim, heads, groups)
