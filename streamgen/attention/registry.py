"""The kernels by name, and the choice among them."""

from dataclasses import replace
from functools import cache

from streamgen.attention.contract import Kernel, KernelError, Lack, Need
from streamgen.attention.kernels.cascade import Cascade
from streamgen.attention.kernels.flash import Flash
from streamgen.attention.kernels.flashinfer import Flashinfer
from streamgen.attention.kernels.flex import Flex
from streamgen.attention.kernels.reference import Reference
from streamgen.attention.kernels.sdpa import Sdpa
from streamgen.attention.kernels.segments import Segments
from streamgen.attention.kernels.triton import Triton
from streamgen.attention.kernels.varlen import Varlen
from streamgen.attention.kernels.xformers import Xformers

AUTO = "auto"
# Best first. A kernel that takes a detour for a need (copies keys together) comes after those that take none.
ORDER: dict[str, tuple[str, ...]] = {
    "cpu": ("sdpa", "segments", "cascade"),
    "cuda": ("varlen", "flashinfer", "flash", "sdpa"),
}
CAPPING = ("reference", "flex")  # kernels that can cap scores softly (Gemma 2)


@cache
def kernels() -> dict[str, Kernel]:
    """Every kernel by name, whether or not it can run here."""
    known: tuple[Kernel, ...] = (
        Reference(),
        Sdpa(),
        Segments(),
        Cascade(),
        Flex(),
        Varlen(),
        Flash(),
        Flashinfer(),
        Xformers(),
        Triton(),
    )
    return {kernel.name: kernel for kernel in known}


def named(name: str) -> Kernel:
    """The kernel of this name, whether or not it can run here."""
    if name not in kernels():
        raise KernelError(f"There is no kernel {name!r}; choose {AUTO!r} or one of {', '.join(kernels())}.")
    return kernels()[name]


def choose(name: str, need: Need) -> Kernel:
    """The kernel of this name, or the best one for 'auto'; KernelError says why a named one cannot serve."""
    if name == AUTO:
        return _best(need)
    kernel = named(name)
    lack = _uncapped(kernel, need) or kernel.lacks(need)
    if lack is not None:
        raise KernelError(f"The kernel {name!r} was asked for and cannot serve: {lack}")
    return _capping(kernel, need.softcap)


def _best(need: Need) -> Kernel:
    names = (CAPPING[0],) if need.softcap else ORDER.get(need.device, ("sdpa",))
    usable = [kernels()[name] for name in names]
    usable = [kernel for kernel in usable if kernel.lacks(need) is None]
    return _capping(min(usable, key=lambda kernel: kernel.detours(need)), need.softcap)


def _uncapped(kernel: Kernel, need: Need) -> Lack | None:
    if need.softcap and kernel.name not in CAPPING:
        choices = " or ".join(repr(name) for name in CAPPING)
        return Lack(f"{kernel.name!r} has no soft-capped scores, which this model wants", f"choose {choices}")
    return None


def _capping(kernel: Kernel, softcap: float) -> Kernel:
    if softcap and isinstance(kernel, (Reference, Flex)):
        return replace(kernel, softcap=softcap)
    return kernel
