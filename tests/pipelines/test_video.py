"""VideoPipeline: frames as asked, chunk by chunk, and nothing left behind."""

import socket
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import streamgen as sg
from streamgen.attention.contract import KernelError
from streamgen.errors import StreamgenWarning, UsageError
from streamgen.kv.arena import Arena, ArenaFullError
from streamgen.models.wan_vae import StreamingVAE, VaeState
from streamgen.pipelines.denoise import LatentStream
from streamgen.pipelines.session import VideoSession
from streamgen.pipelines.video import DeadChunkError, VideoPipeline
from tests.pipelines.conftest import MakePipeline

PROMPT = "a hero walks"


def video(chunks: Iterable[sg.Chunk]) -> Any:
    return np.concatenate([chunk.frames for chunk in chunks])


def counts(pipe: VideoPipeline) -> Counter[str]:
    """How often each stock module ran from now on."""
    ran: Counter[str] = Counter()
    model, vae = pipe.parts.model.transformer, pipe.parts.vae.vae
    modules = dict(model.named_modules()) | {"decoder": vae.decoder, "text": pipe.parts.text.encoder}
    for name, module in modules.items():
        module.register_forward_hook(lambda *_, name=name: ran.update([name]))
    return ran


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting without computing: latents are noise, and frames are drawn, as many as the real VAE gives."""

    def generate(self: LatentStream, x: Tensor, fresh: Any, text: Any) -> Tensor:
        self.frame += x.shape[2]
        return x

    def decode(self: StreamingVAE, latents: Tensor, state: VaeState) -> tuple[Tensor, VaeState]:
        frames = self.pixel_frames(latents.shape[2], first=state.frames == 0)
        new = VaeState(state.features, state.frames + latents.shape[2])
        return torch.linspace(-1, 1, frames * 3 * 16).view(1, 3, frames, 4, 4), new

    still = torch.zeros(1, 1, 1, 1, 1)
    monkeypatch.setattr(VideoSession, "_noise", lambda _self, _step, frames: still.expand(1, 1, frames, 1, 1))
    monkeypatch.setattr(LatentStream, "generate", generate)
    monkeypatch.setattr(StreamingVAE, "decode", decode)


@pytest.mark.parametrize("time_scale", [1, 4])
@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("first_alone", [False, True])
def test_frames_out_are_frames_asked_for_every_number_first_run_and_second(
    pipeline: MakePipeline, painted: None, time_scale: int, chunk: int, first_alone: bool
) -> None:
    pipe = pipeline(time_scale, chunk=chunk, independent_first_frame=first_alone)
    for frames in range(1, 101):
        for _ in range(2 if frames < 20 else 1):
            chunks = list(pipe.stream(PROMPT, frames=frames))
            assert sum(len(c.frames) for c in chunks) == frames
            assert [c.start for c in chunks] == list(np.cumsum([0] + [len(c.frames) for c in chunks[:-1]]))
            assert [c.index for c in chunks] == list(range(len(chunks)))


@pytest.mark.parametrize(
    ("time_scale", "chunk", "first_alone"), [(1, 1, False), (1, 3, True), (4, 1, True), (4, 3, False)]
)
def test_a_shorter_video_is_the_beginning_of_a_longer_one(
    pipeline: MakePipeline, time_scale: int, chunk: int, first_alone: bool
) -> None:
    pipe = pipeline(time_scale, chunk=chunk, independent_first_frame=first_alone)
    longest = video(pipe.stream(PROMPT, frames=17))
    assert longest.shape == (17, 24, 32, 3) and longest.dtype == np.uint8
    for frames in (1, 2, 5, 12, 16):
        assert np.array_equal(video(pipe.stream(PROMPT, frames=frames)), longest[:frames])


def test_seconds_are_frames_at_the_rate_of_the_checkpoint(pipeline: MakePipeline) -> None:
    assert len(video(pipeline().stream(PROMPT, seconds=0.5))) == 4
    assert len(video(pipeline().stream(PROMPT, seconds=0.01))) == 1


def test_chunks_are_computed_when_they_are_asked_for(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    ran = counts(pipe)
    stream = pipe.stream(PROMPT)
    assert ran["decoder"] == 0
    for number in range(1, 4):
        next(stream)
        assert ran["decoder"] == number


def test_a_stream_without_end_goes_on_until_it_is_closed(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    stream = pipe.stream(PROMPT)
    assert len(list(islice(stream, 25))) == 25
    assert pipe.parts.arena.held > 0
    stream.close()
    assert pipe.parts.arena.held == 0


def test_every_way_out_gives_the_memory_back(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    list(pipe.stream(PROMPT, frames=2))
    assert pipe.parts.arena.held == 0
    with pytest.raises(ZeroDivisionError):
        for _ in pipe.stream(PROMPT, frames=5):
            1 / 0  # noqa: B018
    assert pipe.parts.arena.held == 0
    pipe.transformer.proj_out.bias.fill_(float("nan"))
    with pytest.raises(DeadChunkError):
        list(pipe.stream(PROMPT, frames=5))
    assert pipe.parts.arena.held == 0


def test_text_is_embedded_once_a_prompt_and_its_keys_are_computed_once_a_switch(
    pipeline: MakePipeline,
) -> None:
    pipe = pipeline()
    ran = counts(pipe)
    list(pipe.stream(PROMPT, frames=6, prompt_at=[(0.25, "a hero walks north"), (0.5, PROMPT)]))
    assert ran["text"] == 2
    assert ran["blocks.0.attn2.to_k"] == ran["condition_embedder.text_embedder"] == 3


def test_a_chunk_costs_its_steps_and_a_clean_pass_that_leaves_out_what_nobody_reads(
    pipeline: MakePipeline,
) -> None:
    pipe = pipeline(steps=[1000, 700, 400])
    ran = counts(pipe)
    list(pipe.stream(PROMPT, frames=5))
    steps, passes = 3 * 5, 4 * 5
    assert ran["patch_embedding"] == ran["blocks.0.ffn"] == ran["blocks.0.attn2.to_q"] == passes
    assert ran["blocks.1.attn1.to_k"] == ran["blocks.1.attn1.to_v"] == passes
    assert ran["blocks.1.attn1.to_q"] == ran["blocks.1.attn2.to_q"] == ran["blocks.1.ffn"] == steps
    assert ran["proj_out"] == steps


def test_a_prompt_switch_changes_what_follows_and_keeps_what_was(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    plain = video(pipe.stream(PROMPT, frames=8))
    switched = video(pipe.stream(PROMPT, frames=8, prompt_at=[(0.5, "sand by night")]))
    assert np.array_equal(plain[:4], switched[:4])
    assert not np.array_equal(plain[4], switched[4])


def test_a_prompt_waits_for_the_next_chunk(pipeline: MakePipeline) -> None:
    pipe = pipeline(chunk=3)
    plain = video(pipe.stream(PROMPT, frames=9))
    switched = video(pipe.stream(PROMPT, frames=9, prompt_at=[(0.5, "sand by night")]))
    assert np.array_equal(plain[:6], switched[:6])
    assert not np.array_equal(plain[6:], switched[6:])


def test_the_seed_decides(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    first = video(pipe.stream(PROMPT, frames=4, seed=3))
    torch.manual_seed(99)
    assert np.array_equal(first, video(pipe.stream(PROMPT, frames=4, seed=3)))
    assert not np.array_equal(first, video(pipe.stream(PROMPT, frames=4, seed=4)))


def test_streams_that_take_turns_are_what_they_are_alone(pipeline: MakePipeline) -> None:
    pipe = pipeline(time_scale=4)
    prompts = (PROMPT, "sand by night")
    alone = [video(pipe.stream(prompt, frames=20, seed=i)) for i, prompt in enumerate(prompts)]
    streams = [pipe.stream(prompt, frames=20, seed=i) for i, prompt in enumerate(prompts)]
    turns = list(zip(*streams, strict=True))
    for index in range(2):
        assert np.array_equal(video(turn[index] for turn in turns), alone[index])


@pytest.mark.parametrize(("time_scale", "chunk", "given"), [(1, 1, 5), (4, 1, 3), (4, 3, 3), (1, 3, 6)])
def test_latents_continue_a_stream_without_a_seam(
    pipeline: MakePipeline, time_scale: int, chunk: int, given: int
) -> None:
    pipe = pipeline(time_scale, chunk=chunk)
    whole = list(pipe.stream(PROMPT, frames=29, seed=5))
    latents = torch.cat([c.latents for c in whole], dim=2)[:, :, :given]
    continued = video(pipe.stream(PROMPT, frames=29, seed=5, latents=latents))
    assert np.abs(continued.astype(int) - video(whole)).max() <= 1


def test_a_start_image_is_the_first_frame_as_the_codec_sees_it(pipeline: MakePipeline) -> None:
    pipe = pipeline(time_scale=4, chunk=3)
    picture = np.random.default_rng(0).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    frames = video(pipe.stream(PROMPT, frames=9, image=picture))
    codec = pipe.parts.vae
    pixels = torch.from_numpy(picture).permute(2, 0, 1)[None, :, None] / 127.5 - 1
    seen, _ = codec.decode(codec.encode(pixels, codec.encoder_state())[0], codec.decoder_state())
    expected = ((seen[0, :, 0].permute(1, 2, 0) + 1) * 127.5).round()
    assert len(frames) == 9
    assert np.abs(frames[0] - expected.numpy()).max() <= 1
    other = video(pipe.stream(PROMPT, frames=9, image=Image.new("RGB", (64, 64), "white")))
    assert not np.array_equal(frames[1:], other[1:])


def test_a_size_is_taken_to_the_nearest_multiple_and_said(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    assert pipe.size_multiple == (8, 8)
    with pytest.warns(StreamgenWarning, match="45x11 became 48x8"):
        chunk = next(pipe.stream(PROMPT, frames=1, size=(45, 11)))
    assert chunk.frames.shape == (1, 8, 48, 3)


def test_coordinate_planes_reach_the_model_at_any_size(pipeline: MakePipeline) -> None:
    pipe = pipeline(planes=["y", "x"])
    seen: list[Tensor] = []
    pipe.transformer.patch_embedding.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    list(pipe.stream(PROMPT, frames=1, size=(40, 16)))
    y, x = seen[-1][0, -2:, 0]
    assert torch.equal(y[:, 3], torch.linspace(-1, 1, 4)) and torch.equal(x[1], torch.linspace(-1, 1, 10))


def test_bf16_streams_too(pipeline: MakePipeline) -> None:
    pipe = pipeline(options={"dtype": torch.bfloat16})
    frames = video(pipe.stream(PROMPT, frames=6))
    assert pipe.parts.model.dtype == torch.bfloat16
    exact = video(pipeline().stream(PROMPT, frames=6))
    assert np.abs(frames.astype(int) - exact).mean() < 16


@pytest.mark.parametrize("kernel", ["sdpa", "segments"])
def test_kernels_give_the_same_video(pipeline: MakePipeline, kernel: str) -> None:
    expected = video(pipeline(options={"attention": "reference"}).stream(PROMPT, frames=7))
    frames = video(pipeline(options={"attention": kernel}).stream(PROMPT, frames=7))
    assert np.abs(frames.astype(int) - expected).max() <= 1


def test_an_unknown_or_absent_kernel_is_refused_when_loading(checkpoint: Any) -> None:
    with pytest.raises(KernelError, match="There is no kernel 'turbo'; choose 'auto' or one of reference"):
        VideoPipeline.from_pretrained(checkpoint(), attention="turbo")
    with pytest.raises(KernelError, match="'flash' was asked for and cannot serve"):
        VideoPipeline.from_pretrained(checkpoint(), attention="flash")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_broken_chunk_is_an_error_and_no_black_picture(pipeline: MakePipeline, value: float) -> None:
    pipe = pipeline()
    pipe.transformer.proj_out.bias.fill_(value)
    with pytest.raises(
        DeadChunkError, match=r"Chunk 0 is NaN or infinite\. The kernel was 'auto': try attention="
    ):
        next(pipe.stream(PROMPT, frames=1))


def test_a_plain_colour_is_an_error(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    pipe.parts.vae.vae.decoder.conv_out.weight.zero_()
    with pytest.raises(DeadChunkError, match="Chunk 0 is a plain colour without any picture"):
        next(pipe.stream(PROMPT, frames=1))


def test_unknown_words_are_said_and_long_prompts_refused_before_anything_runs(pipeline: MakePipeline) -> None:
    pipe = pipeline()
    with pytest.warns(StreamgenWarning, match="does not know these words and reads past them: purple"):
        next(pipe.stream("a purple hero", frames=1))
    with pytest.raises(UsageError, match="say it in fewer words"):
        pipe.stream(PROMPT, prompt_at=[(1, "a hero walks through snow by night")])


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"frames": 0}, "frames=0 is no length"),
        ({"frames": 3, "seconds": 1.0}, "give one of them"),
        ({"seconds": -1.0}, "seconds=-1 is no length"),
        ({"steps": 0}, "0 steps denoise nothing"),
        ({"window": 0}, "A window of 0 latent frames cannot hold the 1"),
        ({"sink": -1}, "A sink of -1"),
        ({"prompt_at": [(0.0, "snow")]}, "give each a time of its own"),
        ({"latents": torch.zeros(1, 3, 1, 6, 8)}, r"give \[1, 4, frames, h, w\]"),
        ({"latents": torch.zeros(1, 4, 1, 8, 8)}, "Latents of 8x8 do not begin a stream of 8x6"),
        ({"latents": torch.zeros(4, 1, 6, 8), "image": "both"}, "not with both"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused_at_once(
    pipeline: MakePipeline, wish: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        pipeline().stream(PROMPT, **wish)


def test_a_stream_without_end_needs_a_window(pipeline: MakePipeline) -> None:
    pipe = pipeline(window=None, sink=0)
    with pytest.raises(UsageError, match="A stream without end needs a window"):
        pipe.stream(PROMPT)
    assert len(video(pipe.stream(PROMPT, frames=30))) == 30


def test_dtype_and_device_have_to_fit(checkpoint: Any) -> None:
    with pytest.raises(UsageError, match=r"choose torch\.float32 or torch\.bfloat16"):
        VideoPipeline.from_pretrained(checkpoint(), dtype=torch.float16)
    with pytest.raises(UsageError, match="The memory lies on cuda and the models are to be on cpu"):
        VideoPipeline.from_pretrained(checkpoint(), memory=Arena(device="cuda"))


def test_one_budget_serves_several_pipelines_and_refuses_before_anything_is_computed(
    pipeline: MakePipeline,
) -> None:
    probe = pipeline()
    stream = probe.stream(PROMPT)
    next(stream)
    one = probe.parts.arena.held
    memory = sg.CachePool(budget=int(1.5 * one))
    first, second = pipeline(options={"memory": memory}), pipeline(chunk=2, options={"memory": memory})
    running = first.stream(PROMPT)
    next(running)
    ran = counts(second)
    with pytest.raises(ArenaFullError, match="held by: video memory"):
        next(second.stream(PROMPT))
    assert ran["decoder"] == ran["blocks.0"] == 0
    running.close()
    next(second.stream(PROMPT, frames=2))


def test_loading_and_streaming_open_no_connection(checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint()

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    pipe = sg.VideoPipeline.from_pretrained(Path(folder))
    assert len(video(pipe.stream(PROMPT, frames=2))) == 2
