"""What is given to an attend is used or refused with a sentence."""

import pytest
import torch

from streamgen.attention import Kernel, Need, kernels
from streamgen.kv import Causal, Full, stage_together
from tests.attention.conftest import EVERY
from tests.attention.scenes import Q_HEADS, Stream, World

every_kernel = pytest.mark.parametrize("kernel", EVERY, indirect=True)


def given(world: World, tokens: int, caches: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    k, v = world.noise(2, caches, tokens, 2)
    return world.noise(caches, tokens, Q_HEADS), k, v


@every_kernel
def test_more_keys_than_were_staged_are_refused(kernel: Kernel) -> None:
    stream = World().stream()
    with stream.cache.stage(3) as stage:
        attend = kernel.plan([stage], Q_HEADS)[0]
        with pytest.raises(
            ValueError, match=r"\[1, 4, 2, 16\] were given and the stage was opened for \[1, 3"
        ):
            attend(*given(stream.world, 4))


@every_kernel
def test_keys_of_another_dtype_are_refused(kernel: Kernel) -> None:
    stream = World().stream()
    with stream.cache.stage(3) as stage:
        attend = kernel.plan([stage], Q_HEADS)[0]
        with pytest.raises(
            ValueError, match=r"bfloat16 and the pool keeps torch.float32; build the pool with"
        ):
            attend(*[x.bfloat16() for x in given(stream.world, 3)])


@every_kernel
def test_a_causal_mask_needs_a_query_for_each_staged_token(kernel: Kernel) -> None:
    stream = World().stream().push(2)
    with stream.cache.stage(3, Causal()) as stage:
        attend = kernel.plan([stage], Q_HEADS)[0]
        q, k, v = given(stream.world, 3)
        with pytest.raises(ValueError, match="2 queries were given for 3 staged tokens under a causal mask"):
            attend(q[:, :2], k, v)


def pair() -> tuple[Stream, Stream]:
    world = World()
    return world.stream().push(3), world.stream().push(6)


@every_kernel
def test_caches_of_two_pools_are_not_mixed(kernel: Kernel) -> None:
    stages = [World().stream().cache.stage(2), World().stream().cache.stage(2)]
    with pytest.raises(ValueError, match="lie in different pools"):
        kernel.plan(stages, Q_HEADS)


@every_kernel
def test_stages_of_different_sizes_are_not_mixed(kernel: Kernel) -> None:
    first, second = pair()
    with pytest.raises(ValueError, match=r"Stages of \[2, 3\] tokens"):
        kernel.plan([first.cache.stage(2), second.cache.stage(3)], Q_HEADS)


@every_kernel
def test_no_stages_at_all_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="at least one cache"):
        kernel.plan([], Q_HEADS)


@pytest.mark.parametrize("kernel", ["triton", "varlen", "flash", "flashinfer", "xformers"], indirect=True)
def test_a_kernel_with_one_order_for_a_batch_refuses_two(kernel: Kernel) -> None:
    first, second = pair()
    stages = [first.cache.stage(2, Full()), second.cache.stage(2, Causal())]
    with pytest.raises(ValueError, match="plan .* apart, or choose 'sdpa'"):
        kernel.plan(stages, Q_HEADS)


def test_query_heads_that_the_kv_heads_cannot_share_are_refused() -> None:
    with pytest.raises(ValueError, match="3 query heads cannot share 2 kv heads evenly"):
        Need.of([World().stream().cache.stage(2)], 3)


def test_the_write_survives_a_model_that_tracks_gradients() -> None:
    stream = World().stream()
    with stream.cache.stage(3) as stage:
        attend = kernels()["sdpa"].plan([stage], Q_HEADS)[0]
        q, k, v = (x.requires_grad_() for x in given(stream.world, 3))
        attend(q, k, v)
        assert not stream.world.pool.k.requires_grad


def test_a_need_says_how_the_caches_lie() -> None:
    world = World()
    ring = world.stream(window=8, reserve=True).push(4, 4, 4)
    whole = world.stream().push(4, 4)
    need = Need.of([ring.cache.stage(4)], Q_HEADS)
    assert (need.one_run, need.runs, need.mask, need.tokens, need.visible) == (True, 1, "full", 4, 8)
    both = Need.of(stage_together([whole.cache, whole.fork().cache], 4, Causal()), Q_HEADS)
    assert (both.paged, both.batch, both.mask, both.device) == (True, 2, "causal", "cpu")
