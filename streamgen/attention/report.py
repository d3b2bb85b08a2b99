"""What each kernel is, whether it can run here, and if not, what would mend it."""

from dataclasses import dataclass

import torch

from streamgen.attention.check import verify
from streamgen.attention.contract import MASKS, Kernel, KernelError, MaskKind, Need
from streamgen.attention.registry import kernels


@dataclass(frozen=True)
class KernelReport:
    """One line of `streamgen kernels`."""

    name: str
    installed: bool
    usable: bool
    reason: str  # why not, "" when usable
    fix: str  # what would mend it, "" when usable
    masks: tuple[MaskKind, ...]
    paged: bool  # reads scattered tokens where they lie
    selftest: str  # "passed, error 3e-07", "failed", or "not run"


def describe_kernels(device: str | None = None) -> list[KernelReport]:
    """Every kernel, with its self-test run where it can be; device: where caches would lie."""
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return [_describe(kernel, typical_need(where)) for kernel in kernels().values()]


def typical_need(device: str) -> Need:
    """A small paged cache with shared heads, in the dtype that models use on this kind of device."""
    on_gpu = device == "cuda"
    return Need(
        device=device,
        dtype=torch.bfloat16 if on_gpu else torch.float32,
        head_dim=64,
        q_heads=4,
        kv_heads=2,
        mask="full",
        page_size=16,
        paged=True,
        one_run=False,
        runs=4,
        batch=2,
        tokens=8,
        visible=64,
        capability=torch.cuda.get_device_capability() if on_gpu else None,
    )


def _describe(kernel: Kernel, need: Need) -> KernelReport:
    absent = kernel.absent()
    lack = absent or kernel.lacks(need)
    reason, fix, selftest = ("", "", "not run") if lack is None else (lack.reason, lack.fix, "not run")
    if lack is None:
        reason, selftest = _self_test(kernel, need)
        fix = "choose another kernel" if reason else ""
    return KernelReport(
        name=kernel.name,
        installed=absent is None,
        usable=not reason,
        reason=reason,
        fix=fix,
        masks=tuple(kind for kind in MASKS if kind in kernel.masks),
        paged=kernel.paged,
        selftest=selftest,
    )


def _self_test(kernel: Kernel, need: Need) -> tuple[str, str]:
    """(what is wrong or "", how the self-test went)."""
    try:
        error = verify(kernel, need)
    except KernelError as refusal:
        return str(refusal).rstrip("."), "failed"
    return "", f"passed, error {error:.0e}"
