"""What this machine can multiply: the yardstick for everything else, measured in the same run."""

import time

import torch

SIDE = 2048
SECONDS = 1.0


def gemm_peak(dtype: torch.dtype, device: str = "cpu", side: int = SIDE, seconds: float = SECONDS) -> float:
    """The best FLOP/s of square matrix products over about this many seconds."""
    a = torch.randn(side, side, device=device).to(dtype)
    b = torch.randn(side, side, device=device).to(dtype)
    best, end = 0.0, time.perf_counter() + seconds
    while not best or time.perf_counter() < end:
        _wait(device)
        began = time.perf_counter()
        a @ b
        _wait(device)
        best = max(best, 2 * side**3 / (time.perf_counter() - began))
    return best


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
