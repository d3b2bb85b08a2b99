"""The shape of one model's keys and values in a pool."""

from dataclasses import dataclass

import torch

from streamgen.errors import UsageError


@dataclass(frozen=True)
class Geometry:
    """What a page holds: `page_size` tokens of `layers_per_page` layers (all of them unless said)."""

    layers: int
    kv_heads: int
    head_dim: int
    page_size: int
    dtype: torch.dtype = torch.float32
    layers_per_page: int = 0  # 0 = all layers

    def __post_init__(self) -> None:
        if self.layers_per_page == 0:
            object.__setattr__(self, "layers_per_page", self.layers)
        for name in ("layers", "kv_heads", "head_dim", "page_size", "layers_per_page"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; a geometry needs at least 1 of each.")
        if self.layers % self.layers_per_page:
            raise UsageError(
                f"{self.layers} layers cannot be cut into pages of {self.layers_per_page}; choose a divisor."
            )

    @property
    def tables(self) -> int:
        """Block tables of one cache: one for every group of layers that shares its pages."""
        return self.layers // self.layers_per_page

    @property
    def slot_bytes(self) -> int:
        """Keys and values of one token in one table."""
        return 2 * self.layers_per_page * self.kv_heads * self.head_dim * self.dtype.itemsize

    @property
    def page_bytes(self) -> int:
        return self.page_size * self.slot_bytes

    def pages(self, tokens: int) -> int:
        """Pages that one cache needs for this many tokens, all its tables together."""
        return -(-tokens // self.page_size) * self.tables
