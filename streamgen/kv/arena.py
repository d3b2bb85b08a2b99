"""The bytes of one device: every pool of the process draws on one budget."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamgen.errors import OutOfMemoryError, UsageError

if TYPE_CHECKING:
    import torch

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


class ArenaFullError(OutOfMemoryError):
    """A pool asked for more bytes than the budget has left."""


def parse_bytes(text: int | str) -> int:
    """Read a size such as "4GiB", "512 MB" or 1048576."""
    if isinstance(text, int):
        size = text
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
        if match is None or match[2].upper() not in _UNITS:
            raise UsageError(f"{text!r} is not a size; write a number of bytes or something like '4GiB'.")
        size = int(float(match[1]) * _UNITS[match[2].upper()])
    if size < 0:
        raise UsageError(f"A size of {size} bytes cannot be had; give zero or more.")
    return size


def format_bytes(size: int) -> str:
    """Say a size the way people read it: 1536 -> "1.5 KiB"."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


@dataclass(eq=False)
class Lease:
    """Bytes that one owner holds until it frees them; freeing twice is harmless."""

    arena: "Arena"
    nbytes: int
    owner: str

    def free(self) -> None:
        self.arena._leases.pop(self, None)


class Arena:
    """One budget of bytes on one device, shared by every pool that is built on it."""

    def __init__(self, budget: int | str | None = None, device: "str | torch.device" = "cpu") -> None:
        self.budget = None if budget is None else parse_bytes(budget)
        self.device = str(device)
        self._leases: dict[Lease, None] = {}

    @property
    def held(self) -> int:
        return sum(lease.nbytes for lease in self._leases)

    @property
    def free(self) -> int | None:
        """Bytes left of the budget; None when there is no limit."""
        return None if self.budget is None else self.budget - self.held

    def reserve(self, nbytes: int, owner: str) -> Lease:
        """Take bytes from the budget, or refuse before anything has changed."""
        if nbytes < 0:
            raise UsageError(f"{owner} asked for {nbytes} bytes; ask for zero or more.")
        self.require(nbytes, owner)
        lease = Lease(self, nbytes, owner)
        self._leases[lease] = None
        return lease

    def require(self, nbytes: int, owner: str) -> None:
        """Refuse, without taking anything, what the budget has no room for."""
        if self.budget is not None and nbytes > self.budget - self.held:
            raise ArenaFullError(self._refusal(nbytes, owner))

    def report(self) -> list[tuple[str, int]]:
        """Who holds how many bytes, in the order in which they came."""
        totals: dict[str, int] = {}
        for lease in self._leases:
            totals[lease.owner] = totals.get(lease.owner, 0) + lease.nbytes
        return list(totals.items())

    def _refusal(self, nbytes: int, owner: str) -> str:
        budget = self.budget or 0
        holders = ", ".join(f"{name} ({_bytes(size)})" for name, size in self.report()) or "nobody"
        return (
            f"{owner} asked for {_bytes(nbytes)} and {_bytes(budget - self.held)} of {_bytes(budget)} are "
            f"free on {self.device}; held by: {holders}. "
            "Close a pool, make this one smaller, or raise the budget."
        )


def _bytes(size: int) -> str:
    return f"{size} bytes ({format_bytes(size)})" if size >= 1024 else f"{size} bytes"
