"""Pictures scale by scale: what is yielded, what repeats, what is held and given back."""

import gc
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from streamgen.attention.contract import KernelError
from streamgen.attention.registry import kernels
from streamgen.errors import OutOfMemoryError
from streamgen.kv.arena import Arena
from streamgen.models.attend import Attend
from streamgen.models.var import VAR, Condition
from streamgen.models.var_loading import cast_products
from streamgen.pipelines.image import ImagePipeline, Preview
from tests.models.var_oracle import teacher_forced
from tests.pipelines.image_models import NAMES, make_pipeline, make_var, make_vqvae, var_config

RUN_HERE = ["reference", "sdpa", "segments", "flex"]
SETTINGS = {"cfg": 2.0, "top_k": 8, "top_p": 0.95}


def last(previews: Sequence[Preview] | object) -> Preview:
    *_, done = previews  # type: ignore[misc]
    return done


def picture(pipe: ImagePipeline, label: int, seed: int) -> Tensor:
    return last(pipe.stream(label, seeds=seed)).tokens


class BrokenScaleError(Exception):
    """Raised on purpose."""


class BreaksLater(VAR):
    """Fails in the middle of its second scale, in its last layer, after keys and values were written."""

    def forward(self, x: Tensor, condition: Condition, attends: Sequence[Attend]) -> Tensor:
        logits = super().forward(x, condition, attends)
        if x.shape[1] > 1:
            raise BrokenScaleError
        return logits


def test_a_preview_comes_after_each_scale_and_the_last_one_is_the_picture() -> None:
    pipe = make_pipeline()
    previews = list(pipe.stream(["one", "two"], seeds=5))
    assert [preview.index for preview in previews] == [0, 1, 2]
    assert [preview.last for preview in previews] == [False, False, True]
    assert all(preview.images.shape == (2, *pipe.size[::-1], 3) for preview in previews)
    assert previews[-1].images.dtype == np.uint8
    assert previews[0].labels == (1, 2) and previews[0].seeds == (5, 6)


def test_thumbnails_are_smaller_at_first_and_whole_at_last() -> None:
    sizes = [preview.thumbnails.shape[1] for preview in make_pipeline().stream(0)]
    assert sizes == [8, 8, 16]
    done = last(make_pipeline().stream(0))
    assert (done.thumbnails == done.images).all()


@pytest.mark.parametrize("smooth", [False, True])
def test_the_same_seed_makes_the_same_picture_alone_or_in_any_batch(smooth: bool) -> None:
    pipe = make_pipeline()
    alone = last(pipe.stream("two", seeds=7, more_smooth=smooth))
    batch = last(pipe.stream(["zero", "two", None], seeds=[1, 7, 7], more_smooth=smooth))
    assert torch.equal(batch.tokens[1:2], alone.tokens)
    assert np.abs(batch.images[1].astype(int) - alone.images[0]).max() <= 1
    assert not torch.equal(last(pipe.stream("two", seeds=8)).tokens, alone.tokens)


def test_one_seed_counts_up_over_the_batch() -> None:
    pipe = make_pipeline()
    batch = last(pipe.stream([1, 1], seeds=3)).tokens
    assert torch.equal(batch, torch.cat([picture(pipe, 1, 3), picture(pipe, 1, 4)]))


@pytest.mark.parametrize("attention", RUN_HERE)
@pytest.mark.parametrize("shared", [False, True], ids=["own adaln", "shared adaln"])
@torch.no_grad()
def test_cached_scales_equal_the_plain_masked_forward(attention: str, shared: bool) -> None:
    model, vae = make_var(var_config((1, 2, 3, 5), shared)), make_vqvae()
    pipe = ImagePipeline(model, vae, attention=attention)
    seen: list[Tensor] = []
    hook = model.register_forward_hook(lambda _module, _inputs, logits: seen.append(logits))
    previews = list(pipe.stream([0, 3], seeds=11, **SETTINGS))  # type: ignore[arg-type]
    hook.remove()
    maps = [
        vae.quantize.pooled(preview.latent, side).repeat(2, 1, 1, 1)
        for preview, side in zip(previews, model.config.patches[1:], strict=False)
    ]
    untold = model.config.classes
    plain = teacher_forced(model, torch.tensor([0, 3, untold, untold]), maps)
    torch.testing.assert_close(torch.cat(seen, 1), plain, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("attention", RUN_HERE)
def test_every_kernel_makes_the_same_pictures(attention: str) -> None:
    labels = [0, 1, 2, None]
    tokens = last(make_pipeline(attention).stream(labels)).tokens
    assert torch.equal(tokens, last(make_pipeline("reference").stream(labels)).tokens)


def test_no_guidance_means_one_sequence_an_image_and_the_told_one() -> None:
    arena = Arena()
    pipe = make_pipeline(memory=arena)
    stream = pipe.stream([1, 2], cfg=0.0)
    next(stream)
    assert arena.held == sum(pipe.memory_bytes(2, guided=False).values())
    greedy = last(pipe.stream(1, cfg=0.0, top_k=1))
    assert not torch.equal(greedy.tokens, last(pipe.stream(1, cfg=6.0, top_k=1)).tokens)


def test_a_picture_of_no_class_needs_no_guidance() -> None:
    arena = Arena()
    pipe = make_pipeline(memory=arena)
    next(pipe.stream(None, cfg=4.0))
    stream = pipe.stream(None, cfg=4.0)
    next(stream)
    assert arena.held == sum(pipe.memory_bytes(1, guided=False).values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cache_bytes_are_the_formula_without_the_last_scale(dtype: torch.dtype) -> None:
    arena, model, vae = Arena(), make_var(), make_vqvae()
    cast_products(model, dtype)
    config = model.config
    sequences, tokens = 2 * 3, sum(side**2 for side in config.patches[:-1])
    formula = sequences * tokens * config.depth * 2 * config.width * dtype.itemsize
    beside = sequences * config.tokens * 2 * config.width * dtype.itemsize  # one layer, for the last scale
    pipe = ImagePipeline(model, vae, memory=arena)
    for preview in pipe.stream([0, 1, 2]):
        assert dict(arena.report()) == {"scales of an image": formula, "last scale of an image": beside}
        assert preview.latent.dtype == torch.float32
    assert arena.held == 0
    assert pipe.memory_bytes(3) == {"stored": formula, "last_scale": beside}


def test_every_byte_comes_back_when_a_scale_fails_half_way() -> None:
    arena = Arena()
    broken = BreaksLater(var_config())
    broken.load_state_dict(make_var().state_dict())
    pipe = ImagePipeline(broken, make_vqvae(), memory=arena)
    stream = pipe.stream([0, 1])
    next(stream)
    with pytest.raises(BrokenScaleError):
        next(stream)
    assert arena.held == 0
    again = make_pipeline(memory=arena)
    assert torch.equal(picture(again, 1, 3), picture(make_pipeline(), 1, 3))
    assert arena.held == 0


def test_every_byte_comes_back_when_nobody_wants_the_rest() -> None:
    arena = Arena()
    stream = make_pipeline(memory=arena).stream([0, 1])
    next(stream)
    assert arena.held > 0
    del stream
    gc.collect()
    assert arena.held == 0


def test_several_pictures_at_once_do_not_mix() -> None:
    """One model, two streams pulled in turns; and another model beside it."""
    pipe, other = make_pipeline(), ImagePipeline(make_var(seed=9), make_vqvae(seed=8))
    wishes = [(pipe, 1, 3), (pipe, 2, 4), (other, 2, 4)]
    alone = [picture(*wish) for wish in wishes]
    *_, done = zip(*[one.stream(label, seeds=seed) for one, label, seed in wishes], strict=True)
    assert all(torch.equal(preview.tokens, tokens) for preview, tokens in zip(done, alone, strict=True))
    assert not torch.equal(alone[1], alone[2])


def test_a_budget_that_is_too_small_is_refused_before_anything_is_held() -> None:
    pipe = make_pipeline(memory=Arena("1KiB"))
    with pytest.raises(OutOfMemoryError, match="1024 bytes"):
        next(pipe.stream(0))
    assert pipe.memory.held == 0


def test_a_kernel_that_cannot_serve_is_refused_before_the_first_scale() -> None:
    absent = next(name for name, kernel in kernels().items() if kernel.absent())
    with pytest.raises(KernelError, match=absent):
        make_pipeline(absent).stream(0)


def test_bf16_previews_stay_near_fp32() -> None:
    """Weights in bf16 may flip a token; greedy first scales of a small model do not."""
    fp32, bf16 = make_var(), make_var()
    cast_products(bf16, torch.bfloat16)
    vae = make_vqvae()
    tokens = [
        last(ImagePipeline(model, vae).stream([0, 1, 2], **SETTINGS | {"top_k": 1})).tokens
        for model in (fp32, bf16)
    ]  # type: ignore[arg-type]
    assert (tokens[0] == tokens[1]).float().mean() > 0.8
    assert bf16.class_emb.weight.dtype == torch.float32 and bf16.dtype == torch.bfloat16


def test_names_of_the_test_model_are_all_named() -> None:
    assert make_pipeline().settings.classes.no_class == len(NAMES)
