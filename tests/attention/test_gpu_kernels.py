"""GPU kernels: through stand-ins that compute what the packages document; for real where there is a GPU."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from streamgen.attention import Kernel, Need, kernels
from streamgen.attention.check import verify
from streamgen.attention.kernels import segments, varlen
from streamgen.attention.report import typical_need
from streamgen.kv import Causal, Full, Mask, stage_together
from tests.attention.scenes import Q_HEADS, SCENES, World, error_of

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
GPU_KERNELS = ("sdpa", "segments", "flex", "varlen", "flash", "flashinfer", "xformers", "triton")


@pytest.mark.parametrize("kernel", ["flash", "varlen"], indirect=True)
@pytest.mark.parametrize("mask", [Full(), Causal(), Causal(window=40)], ids=str)
def test_pages_of_256_are_read_through_a_block_table(
    kernel: Kernel, mask: Mask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(varlen, "reads_pages", lambda: True)
    world = World(page_size=256, pages=8)
    streams = [world.stream().push(250), world.stream().push(30), world.stream().push(100).fork()]
    stages = stage_together([stream.cache for stream in streams], 12, mask)
    assert not kernel.detours(replace(Need.of(stages, Q_HEADS), capability=(9, 0)))
    packed = vars(kernel.plan(stages, Q_HEADS)[0])["packed"]
    assert packed.table.shape == (3, 2) and packed.row is None
    assert error_of(kernel, streams, stages, [mask] * 3, passes=1) < 2e-5


@pytest.mark.parametrize("kernel", ["flash", "varlen", "xformers"], indirect=True)
def test_a_lone_ring_is_read_in_place_by_kernels_that_know_no_rings(kernel: Kernel) -> None:
    stream = World().stream(window=8, reserve=True).push(4, 4, 4)
    with stream.cache.stage(4) as stage:
        assert not kernel.detours(Need.of([stage], Q_HEADS))
        prepared = vars(kernel.plan([stage], Q_HEADS)[0])
        packed = prepared["packed"] if "packed" in prepared else prepared["biased"].packed
        assert packed.row.slots is None and packed.row.stop - packed.row.start == 8


@pytest.mark.parametrize("kernel", ["varlen", "flash", "flashinfer", "xformers"], indirect=True)
def test_host_work_happens_in_the_plan_and_not_in_the_steps(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    streams = [world.stream().push(4, 4), world.stream().push(3)]
    stages = stage_together([stream.cache for stream in streams], 4)
    attend = kernel.plan(stages, Q_HEADS)[0]
    q, (k, v) = world.noise(2, 4, Q_HEADS), world.noise(2, 2, 4, 2)
    made: list[str] = []
    for name in ("tensor", "arange", "zeros", "full"):
        whole = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *a, _n=name, _f=whole, **o: made.append(_n) or _f(*a, **o))
    monkeypatch.setattr("tests.attention.fakes.ragged", lambda q, *rest: q)
    attend(q, k, v)
    assert made == []


def test_fa3_is_what_lets_varlen_read_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not varlen.reads_pages()
    monkeypatch.setattr(torch.nn.attention, "current_flash_attention_impl", lambda: "FA3")
    assert varlen.reads_pages()


@pytest.mark.parametrize("mask", [Full(), Causal()], ids=str)
def test_segments_use_the_cuda_operator_on_a_gpu(mask: Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CUDA operator answers (out, LSE, and seven things more) and takes no bias."""

    def flash(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool
    ) -> tuple[torch.Tensor | None, ...]:
        return *on_cpu(q, k, v, None, is_causal), *[None] * 7

    on_cpu = segments.partial_cpu
    monkeypatch.setattr(torch.ops.aten, "_scaled_dot_product_flash_attention", flash)
    monkeypatch.setattr(segments, "partial_cpu", segments.partial_cuda)
    stream = SCENES[-2](World())
    with stream.cache.stage(5, mask) as stage:
        assert error_of(kernels()["segments"], [stream], [stage], [mask]) < 2e-5


def test_a_need_on_a_gpu_knows_its_compute_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = World().stream()
    with stream.cache.stage(2) as stage:
        [table] = stage.tables
        (k, v), *others = table.flat
        fake = type("OnGpu", (), {"device": torch.device("cuda"), "dtype": k.dtype, "shape": k.shape})()
        object.__setattr__(table, "flat", [(fake, v), *others])
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
        assert Need.of([stage], Q_HEADS).capability == (8, 6)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", GPU_KERNELS)
def test_it_answers_like_the_reference_on_this_gpu(name: str) -> None:
    layouts = (
        {},
        {"paged": False},
        {"one_run": True, "paged": False, "runs": 1},
        {"page_size": 256, "visible": 700},
    )
    for mask, layout in product(kernels()[name].masks, layouts):
        need = replace(typical_need("cuda"), mask=mask, **layout)
        lack = kernels()[name].lacks(need)
        if lack is not None and mask == "full":
            pytest.skip(str(lack))
        if lack is None:
            verify(kernels()[name], need)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("name", GPU_KERNELS)
def test_it_sees_what_the_cache_remembers_on_this_gpu(name: str) -> None:
    for scene in SCENES:
        stream = scene(World(torch.bfloat16, device="cuda", head_dim=64))
        with stream.cache.stage(5) as stage:
            lack = kernels()[name].lacks(Need.of([stage], Q_HEADS))
            if lack is not None:
                pytest.skip(str(lack))
            assert error_of(kernels()[name], [stream], [stage], [Full()]) < 2e-2
