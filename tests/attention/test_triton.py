"""Our Triton kernel under Triton's own interpreter and compiler; elsewhere it runs over a stand-in."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from streamgen.attention import KernelError, choose, kernels
from streamgen.attention.kernels.triton import block_sizes
from streamgen.attention.report import typical_need
from tests.attention import fake_triton

ROOT = Path(__file__).parents[2]
INTERPRETED = "triton and (bfloat16 or share_a_batch or sink_is_seen or each_token_tree or scattered)"

absent = find_spec("triton") is None
needs_triton = pytest.mark.skipif(absent, reason="triton is not installed: pip install triton==3.9.0")


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.triton
@needs_triton
def test_the_promises_hold_under_tritons_interpreter() -> None:
    options = ("-q", "-p", "no:cacheprovider", "-k", INTERPRETED)
    out = run("-m", "pytest", "tests/attention/test_promises.py", *options, TRITON_INTERPRET="1")
    assert "passed" in out and "failed" not in out


@pytest.mark.triton
@needs_triton
def test_it_compiles_for_a_gpu_within_the_shared_memory_of_small_ones(tmp_path: Path) -> None:
    cases = ("bf16,2,128,80", "fp16,1,64,90")
    out = run(
        "tests/attention/compile_triton.py", *cases, PYTHONPATH=str(ROOT), TRITON_CACHE_DIR=str(tmp_path)
    )
    shared = [int(line.split()[1]) for line in out.splitlines()]
    assert len(shared) == len(cases) and all(0 < size <= 99 << 10 for size in shared)


def test_without_an_interpreter_it_asks_for_a_gpu() -> None:
    need = typical_need("cpu")
    with pytest.raises(KernelError, match="'triton' was asked for and cannot serve: .* CUDA devices only"):
        choose("triton", need)


def test_interpreted_it_serves_a_cpu_but_no_float64() -> None:
    need = typical_need("cpu")
    with fake_triton.installed():
        assert choose("triton", need) is kernels()["triton"]
        lack = kernels()["triton"].lacks(replace(need, dtype=torch.float64))
    assert lack is not None and "float64" in lack and "choose 'reference'" in lack


@pytest.mark.parametrize(("head_dim", "itemsize"), [(64, 2), (80, 2), (128, 4), (256, 4), (8, 2)])
def test_blocks_shrink_as_keys_widen(head_dim: int, itemsize: int) -> None:
    sizes = block_sizes(4096, head_dim, itemsize)
    assert sizes["BLOCK_D"] >= max(16, head_dim) and sizes["BLOCK_D"] & (sizes["BLOCK_D"] - 1) == 0
    assert sizes["BLOCK_N"] * sizes["BLOCK_D"] * itemsize <= 16 << 10
    assert block_sizes(3, head_dim, itemsize)["BLOCK_Q"] == 16
