"""The products a picture cannot do without, replayed alone: same shapes, weights, order, dtype and layout.

What is left out: norms, AdaLN arithmetic, activations, caches, sampling, quantising, copies.
Shapes: R sequences, T tokens of a scale, n visible tokens, H heads, D head dim.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from streamgen.models.var_blocks import ScaledAttention
from streamgen.pipelines.image import ImagePipeline

Product = Callable[[], Tensor]


@dataclass
class Products:
    """The products of one picture, by kind."""

    kinds: dict[str, list[Product]] = field(default_factory=dict)

    def seconds(self) -> dict[str, float]:
        """CPU seconds of each kind, run once."""
        spent = {}
        with torch.inference_mode():
            for kind, products in self.kinds.items():
                began = time.process_time()
                for product in products:
                    product()
                spent[kind] = time.process_time() - began
        return spent


def record(pipe: ImagePipeline, make: Callable[[], None]) -> Products:
    """Run once and note every product that the models do."""
    found = Products({"linear": [], "attention": [], "convolution": []})
    inputs: dict[tuple[Any, ...], Tensor] = {}

    def sample(shape: tuple[int, ...], dtype: torch.dtype, last: bool = False) -> Tensor:
        key = (shape, dtype, last)
        if key not in inputs:
            layout = torch.channels_last if last else torch.contiguous_format
            inputs[key] = torch.randn(shape).to(dtype).contiguous(memory_format=layout)
        return inputs[key]

    def note(module: nn.Module, given: tuple[Any, ...]) -> None:
        x: Tensor = given[0]
        if isinstance(module, ScaledAttention):
            flat, weight = sample(tuple(x.shape), x.dtype), module.mat_qkv.weight
            found.kinds["linear"].append(lambda: F.linear(flat, weight))
        elif isinstance(module, nn.Linear):
            flat = sample(tuple(x.shape), x.dtype)
            found.kinds["linear"].append(lambda: F.linear(flat, module.weight))
        elif isinstance(module, nn.Conv2d):
            maps = sample(tuple(x.shape), x.dtype, last=True)
            pad, step = module.padding, module.stride
            found.kinds["convolution"].append(lambda: F.conv2d(maps, module.weight, None, step, pad))

    with ExitStack() as undo:
        for model in (pipe.model, pipe.vae.decoder, pipe.vae.post_quant_conv):
            for module in model.modules():
                undo.callback(module.register_forward_pre_hook(note).remove)
        make()
    found.kinds["attention"] = attention_products(pipe, sample)
    return found


def attention_products(pipe: ImagePipeline, sample: Callable[..., Tensor]) -> list[Product]:
    """Attention of one guided picture: two sequences, all layers, all scales."""
    config, dtype = pipe.model.config, pipe.model.dtype
    products: list[Product] = []
    for span in config.spans:
        q = sample((2, config.heads, len(span), config.head_dim), dtype)
        k = sample((2, config.heads, span.stop, config.head_dim), dtype)
        products += [lambda q=q, k=k: F.scaled_dot_product_attention(q, k, k)] * config.depth  # type: ignore[misc]
    return products
