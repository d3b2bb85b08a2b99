"""Adapters on a model for the length of a with-block; afterwards its modules are the very ones it had.

    with applied(model, adapter):         # beside the weights; quantised weights are fine
    with applied(model, [one, other]):    # row 0 of the batch with one, row 1 with the other
    with merged(model, adapter):          # a copy of the target weights with the change in it

Shapes: N adapters, T tokens, R rank, A [N, R, in], B [N, R, out].
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from streamgen.errors import UsageError
from streamgen.models.doc_lora_adapter import Adapter


class AdaptedLinear(nn.Module):
    """A linear module and what is added to its output: computed in float32, then cast as the output is."""

    def __init__(self, base: nn.Module, a: Tensor, b: Tensor, alpha: float) -> None:
        super().__init__()
        self.base = base
        self.a, self.b, self.alpha = a, b, alpha
        self.in_features, self.out_features = a.shape[2], b.shape[2]

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, in] -> [N, T, out]; a single adapter serves inputs of any shape."""
        out = self.base(x)
        if len(self.a) == 1:
            change = x.float() @ self.a[0].T @ self.b[0]
        elif x.ndim == 3 and len(x) == len(self.a):
            change = x.float() @ self.a.transpose(1, 2) @ self.b
        else:
            raise UsageError(
                f"{len(self.a)} adapters are applied, one for each row, and the input is {list(x.shape)}; "
                "run as many rows as there are adapters."
            )
        return (out + self.alpha * change).to(out.dtype)


class MergedLinear(nn.Linear):
    """A linear module with an adapter in its weights; the module it stands for keeps its own."""

    def __init__(self, base: nn.Linear, change: Tensor) -> None:
        nn.Module.__init__(self)
        self._stands_for = (base,)  # in a tuple, so that its weights are not counted as ours
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight = nn.Parameter((base.weight.float() + change).to(base.weight.dtype), requires_grad=False)
        self.bias = base.bias

    @property
    def base(self) -> nn.Linear:
        return self._stands_for[0]

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)


Adapted = AdaptedLinear | MergedLinear


@dataclass(frozen=True)
class Site:
    """Where a target module hangs."""

    parent: nn.Module
    target: str
    layer: int
    name: str  # from the root of the model

    @property
    def module(self) -> nn.Module:
        return getattr(self.parent, self.target)


@contextmanager
def applied(model: Any, adapters: Adapter | Sequence[Adapter]) -> Iterator[None]:
    """Add one adapter to every row of a batch, or one of several to each."""
    listed = [adapters] if isinstance(adapters, Adapter) else list(adapters)
    if not listed:
        raise UsageError("No adapter was given to apply; give at least one.")
    alpha = listed[0].alpha
    if any(adapter.alpha != alpha or adapter.sizes != listed[0].sizes for adapter in listed):
        raise UsageError("Adapters of different hypernetworks cannot share a batch; run them apart.")
    rows = {name: _padded([adapter.matrices()[name] for adapter in listed]) for name in listed[0].told}

    def adapted(site: Site) -> AdaptedLinear:
        a, b = rows[site.target]
        device = _weight(site).device
        return AdaptedLinear(site.module, a[:, site.layer].to(device), b[:, site.layer].to(device), alpha)

    with _exchanged(sites(model, listed[0]), adapted):
        yield


@contextmanager
def merged(model: Any, adapter: Adapter) -> Iterator[None]:
    """Put an adapter into copies of the weights that it changes: no cost per token, more memory."""
    changes = {name: adapter.change(name) for name in adapter.told}

    def summed(site: Site) -> MergedLinear:
        module = site.module
        if not isinstance(module, nn.Linear) or isinstance(module, MergedLinear) or not _floats(module):
            raise UsageError(
                f"{site.name} is a {type(module).__name__}, and an adapter cannot be merged into that; "
                "use applied(), which leaves the weights as they are, or merge a stack() of several."
            )
        return MergedLinear(module, changes[site.target][site.layer].to(module.weight.device))

    with _exchanged(sites(model, adapter), summed):
        yield


def refuse_adapted(model: nn.Module) -> None:
    """A document is read by the model itself, never through an adapter."""
    guilty = [n for n, module in model.named_modules() if isinstance(module, AdaptedLinear | MergedLinear)]
    if guilty:
        raise UsageError(
            f"An adapter is on this model ({guilty[0]} and {len(guilty) - 1} more); leave its with-block "
            "before another document is read."
        )


def sites(model: Any, adapter: Adapter) -> list[Site]:
    """The modules that an adapter is for, all of them or an error."""
    layers = model.get_decoder().layers
    if len(layers) != adapter.layers:
        raise UsageError(
            f"This adapter is for {adapter.layers} layers and the model has {len(layers)}; "
            "give the model that the hypernetwork was trained with."
        )
    names = {id(module): name for name, module in model.named_modules()}
    found = []
    for number, layer in enumerate(layers):
        for target, (a, b) in adapter.told.items():
            site = _find(layer, number, target, names)
            wanted, there = (a.shape[2], b.shape[2]), _widths(site.module)
            if wanted != there:
                raise UsageError(
                    f"This adapter changes a {target} of {wanted[0]} inputs and {wanted[1]} outputs and "
                    f"{site.name} has {there[0]} and {there[1]}; give the model that it was made for."
                )
            found.append(site)
    return found


def save_peft(model: Any, adapter: Adapter, folder: Path) -> None:
    """Write the adapter as a PEFT folder, for this and other programs."""
    from peft import LoraConfig
    from safetensors.torch import save_file

    state = {}
    for site in sites(model, adapter):
        a, b = (matrix[site.layer] for matrix in adapter.matrices()[site.target])
        state[f"base_model.model.{site.name}.lora_A.weight"] = a.detach().cpu().contiguous()
        state[f"base_model.model.{site.name}.lora_B.weight"] = b.detach().cpu().T.contiguous()
    config = LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha * adapter.rank,  # PEFT divides by the rank, Doc-to-LoRA does not
        target_modules=sorted(adapter.told),
        task_type="CAUSAL_LM",
    )
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    save_file(state, folder / "adapter_model.safetensors")


@contextmanager
def _exchanged(places: Sequence[Site], build: Callable[[Site], Adapted]) -> Iterator[None]:
    """Other modules in these places; they are all built before the first is put in."""
    ours = [build(site) for site in places]
    for site, module in zip(places, ours, strict=True):
        setattr(site.parent, site.target, module)
    try:
        yield
    finally:
        for site, module in zip(places, ours, strict=True):
            _take_out(site, module)


def _take_out(site: Site, ours: Adapted) -> None:
    """Put back what our module stands for, also where another adapter was put around it meanwhile."""
    if site.module is ours:
        setattr(site.parent, site.target, ours.base)
        return
    around = site.module
    while isinstance(around, AdaptedLinear) and around.base is not ours:
        around = around.base
    assert isinstance(around, AdaptedLinear), f"a stranger is in place of {site.name}: {around}"
    around.base = ours.base


def _find(layer: nn.Module, number: int, target: str, names: dict[int, str]) -> Site:
    found = [
        parent
        for parent in layer.modules()
        if target in parent._modules and not isinstance(parent, AdaptedLinear)
    ]
    if len(found) != 1:
        raise UsageError(
            f"Layer {number} of this model has {len(found)} modules named {target} and an adapter wants one; "
            "give the model that the hypernetwork was trained with."
        )
    (parent,) = found
    return Site(parent, target, number, f"{names[id(parent)]}.{target}")


def _floats(module: nn.Linear) -> bool:
    return module.weight.dtype.is_floating_point


def _widths(module: nn.Module) -> tuple[int, int]:
    inputs, outputs = module.in_features, module.out_features
    assert isinstance(inputs, int) and isinstance(outputs, int), type(module).__name__
    return inputs, outputs


def _weight(site: Site) -> Tensor:
    return next(site.module.parameters())


def _padded(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Several ([L, R, in], [L, R, out]) as one pair with a row each; missing ranks are zero."""
    rank = max(a.shape[1] for a, _ in pairs)

    def filled(matrix: Tensor) -> Tensor:
        return F.pad(matrix, (0, 0, 0, rank - matrix.shape[1]))

    return torch.stack([filled(a) for a, _ in pairs]), torch.stack([filled(b) for _, b in pairs])
