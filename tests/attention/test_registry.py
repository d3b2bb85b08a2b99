"""Named kernels run or are refused with the reason and the fix; 'auto' takes the best one that can serve."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from streamgen.attention import KernelError, Need, choose, kernels
from streamgen.attention.contract import MASKS
from streamgen.attention.kernels import varlen
from streamgen.attention.report import typical_need
from tests.attention import fakes

CPU = replace(typical_need("cpu"), tokens=16, visible=512)
GPU = replace(CPU, device="cuda", dtype=torch.bfloat16, capability=(8, 0))
NEEDS_PACKAGE = {
    "flash": "pip install flash-attn",
    "flashinfer": "pip install flashinfer-python",
    "xformers": "pip install xformers",
}


@pytest.mark.parametrize("name", ["varlen", "flash", "flashinfer", "xformers"])
def test_a_gpu_kernel_named_on_a_cpu_is_refused_with_what_to_choose(name: str) -> None:
    with pytest.raises(
        KernelError, match=f"The kernel '{name}' was asked for .* cache is on cpu; choose 'sdpa'"
    ):
        choose(name, CPU)


@pytest.mark.parametrize("name", NEEDS_PACKAGE)
def test_a_kernel_without_its_package_is_refused_with_the_command_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamgen.attention.lacks.find_spec", lambda package: None)
    with pytest.raises(KernelError, match=f"not installed; run '{NEEDS_PACKAGE[name]}'"):
        choose(name, GPU)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(KernelError, match="no kernel 'sage'; choose 'auto' or one of reference, sdpa"):
        choose("sage", CPU)


@pytest.mark.parametrize(
    ("need", "name"),
    [
        (replace(CPU, one_run=True, runs=1), "sdpa"),
        (CPU, "segments"),
        (replace(CPU, runs=500), "sdpa"),
        (replace(CPU, tokens=64), "sdpa"),
        (replace(CPU, dtype=torch.bfloat16), "sdpa"),
        (replace(CPU, shared=9, batch=4), "cascade"),
        (replace(CPU, shared=9, batch=4, device="mps"), "sdpa"),
        (replace(CPU, device="mps"), "sdpa"),
        (replace(GPU, dtype=torch.float32), "sdpa"),
        (replace(GPU, mask="tree"), "sdpa"),
        (replace(GPU, capability=(7, 0)), "sdpa"),
        (replace(GPU, batch=1, one_run=True, runs=1), "varlen"),
    ],
)
def test_auto_takes_the_best_kernel_that_can_serve(need: Need, name: str) -> None:
    assert choose("auto", need).name == name


def test_auto_prefers_a_kernel_that_reads_pages_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    with fakes.standing_in(*fakes.PACKAGES["flash"], *fakes.PACKAGES["flashinfer"]):
        assert choose("auto", GPU).name == "flashinfer"
        assert choose("auto", replace(GPU, mask="tree")).name == "flashinfer"
        monkeypatch.setattr(varlen, "reads_pages", lambda: True)
        assert choose("auto", GPU).name == "varlen"
    with fakes.standing_in(*fakes.PACKAGES["flash"]):
        assert choose("auto", replace(GPU, page_size=256)).name == "varlen"
        monkeypatch.setattr(varlen, "reads_pages", lambda: False)
        assert choose("auto", replace(GPU, page_size=256)).name == "flash"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"capability": (7, 5)}, "needs compute capability 8.0 and this GPU has 7.5"),
        ({"capability": None}, "this GPU has an unknown one"),
        ({"dtype": torch.float32}, "knows torch.float16, torch.bfloat16 and the cache keeps torch.float32"),
        ({"head_dim": 260}, "needs a head dim of a multiple of 8 up to 256 and the model has 260"),
        ({"mask": "tree"}, "cannot honour a tree mask; choose 'sdpa', 'flashinfer' or 'triton'"),
    ],
)
def test_each_limit_of_a_gpu_kernel_is_a_sentence(change: dict[str, object], sentence: str) -> None:
    lack = kernels()["varlen"].lacks(replace(GPU, **change))  # type: ignore[arg-type]
    assert lack is not None and sentence in lack and lack.endswith(".") and "choose" in lack.fix


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"device": "mps"}, "no operator for mps"),
        ({"dtype": torch.float32}, "on cuda knows torch.bfloat16, torch.float16"),
        ({"head_dim": 60}, "multiple of 8 up to 256, not 60"),
        ({"mask": "window"}, "on a GPU has no window mask"),
        ({"device": "cpu", "dtype": torch.float8_e4m3fn}, "on cpu knows"),
    ],
)
def test_segments_says_where_its_operators_end(change: dict[str, object], sentence: str) -> None:
    lack = kernels()["segments"].lacks(replace(GPU, **change))  # type: ignore[arg-type]
    assert lack is not None and sentence in lack and "choose 'sdpa'" in lack
    assert kernels()["segments"].lacks(GPU) is None


def test_flex_says_where_it_cannot_run() -> None:
    assert "no operator for mps" in str(kernels()["flex"].lacks(replace(CPU, device="mps")))
    assert kernels()["flex"].lacks(CPU) is None


def test_a_torch_without_block_tables_lacks_varlen(monkeypatch: pytest.MonkeyPatch) -> None:
    older = fakes.module(varlen.MODULE, varlen_attn=lambda query, key, value: query)
    for stand_in in (older, None):
        monkeypatch.setitem(sys.modules, varlen.MODULE, stand_in)
        lack = kernels()["varlen"].lacks(GPU)
        assert lack is not None and "no varlen_attn that takes a block table; install torch" in lack


def test_every_kernel_says_which_masks_it_honours_and_means_it() -> None:
    for kernel in kernels().values():
        for mask in MASKS:
            if mask not in kernel.masks:
                assert kernel.lacks(replace(GPU, mask=mask)) is not None


def test_the_package_imports_and_attends_without_any_kernel_package() -> None:
    program = """
import sys
for name in ("triton", "flash_attn", "flashinfer", "xformers"):
    sys.modules[name] = None
import torch
from streamgen.attention import Need, checked
from streamgen.kv import Arena, Geometry, PagePool
pool = PagePool(Arena(), Geometry(1, 2, 8, 4), 4)
with pool.cache().stage(3) as stage:
    [attend] = checked("auto", Need.of([stage], 2)).plan([stage], 2)
    print(attend(*torch.ones(3, 1, 3, 2, 8)).sum().item())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "48.0", done.stderr


def test_no_kernel_package_is_imported_before_it_is_chosen() -> None:
    program = "import sys, streamgen.attention; print([n for n in sys.modules if n in sys.argv[1:]])"
    names = ["triton", "flash_attn", "flashinfer", "xformers"]
    done = subprocess.run([sys.executable, "-c", program, *names], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
