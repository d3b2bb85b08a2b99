"""The reasons why a GPU kernel cannot serve, as sentences; every one says what to do instead."""

from collections.abc import Set
from dataclasses import dataclass
from importlib.util import find_spec

import torch

from streamgen.attention.contract import Lack, MaskKind, Need

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class GpuLimits:
    """What a GPU kernel can do."""

    name: str
    masks: Set[MaskKind]
    dtypes: tuple[torch.dtype, ...]
    capability: tuple[int, int]
    head_dim: int  # largest
    multiple: int  # that the head dim must be of

    def elsewhere(self, need: Need) -> Lack | None:
        """Any other device than CUDA; said first, since no package would mend it."""
        if need.device == "cuda":
            return None
        return Lack(f"'{self.name}' runs on CUDA devices only and the cache is on {need.device}", CPU_FIX)

    def lacks(self, need: Need) -> Lack | None:
        """The first limit that this need breaks."""
        if need.capability is None or need.capability < self.capability:
            asked, there = _dotted(self.capability), _dotted(need.capability)
            return Lack(f"'{self.name}' needs compute capability {asked} and this GPU has {there}", SDPA_FIX)
        if need.dtype not in self.dtypes:
            known = ", ".join(str(dtype) for dtype in self.dtypes)
            fix = f"build the pool in one of them, or {SDPA_FIX}"
            return Lack(f"'{self.name}' knows {known} and the cache keeps {need.dtype}", fix)
        if need.head_dim > self.head_dim or need.head_dim % self.multiple:
            rule = f"a head dim of a multiple of {self.multiple} up to {self.head_dim}"
            return Lack(f"'{self.name}' needs {rule} and the model has {need.head_dim}", SDPA_FIX)
        if need.mask not in self.masks:
            fix = "choose 'sdpa', 'flashinfer' or 'triton', which honour it"
            return Lack(f"'{self.name}' cannot honour a {need.mask} mask", fix)
        return None


SDPA_FIX = "choose 'sdpa'"
CPU_FIX = "choose 'sdpa' or 'segments', or put the pool on a GPU"


def missing(name: str, package: str, install: str) -> Lack | None:
    """The lack of a Python package, or None where it is installed."""
    if find_spec(package) is not None:
        return None
    return Lack(f"'{name}' needs the package {package}, which is not installed", f"{install}, or {SDPA_FIX}")


def _dotted(capability: tuple[int, int] | None) -> str:
    return "an unknown one" if capability is None else ".".join(str(part) for part in capability)
