"""Blocks of the public causal Wan, chunk by chunk, through the stock class and the real cache."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

from streamgen.models.wan import CausalWan
from streamgen.pipelines.denoise import LatentStream, StreamRules
from streamgen.sampling.flow import FlowSchedule
from tests.golden.fixtures import Golden, golden, named, of_kind
from tests.golden.wan_models import KERNELS, channels_first, stream, transformer

FILES = of_kind("wan", "wan_causal_block")


def rollout(recorded: Golden, kernel: str) -> LatentStream:
    clean = [recorded.tensors[f"in/chunk{c}/clean"] for c in range(num_chunks(recorded))]
    schedule = FlowSchedule(
        recorded.facts.get("timestep_shift", 5.0), (1000,), True, "flow_prediction", "renoise"
    )
    return stream(
        CausalWan(transformer(recorded)),
        schedule,
        StreamRules(window=None, sink=0, context_noise=0, positions="absolute"),
        tuple(clean[0].shape[-2:]),
        sum(chunk.shape[1] for chunk in clean),
        kernel,
    )


def num_chunks(recorded: Golden) -> int:
    return len([name for name in recorded.names("in/chunk") if name.endswith("/noisy")])


@contextmanager
def recorded_activations(model: CausalWan, wanted: list[str]) -> Iterator[dict[str, Tensor]]:
    """What the named stock modules put out while the block runs."""
    embedder = model.transformer.condition_embedder
    modules = {
        "patch_embedding": model.transformer.patch_embedding,
        "time_embedding": embedder.time_embedder,
        "time_projection": embedder.time_proj,
        "text_embedding": embedder.text_embedder,
    }
    for index, block in enumerate(model.transformer.blocks):
        parts = {"": block, "_self_attn": block.attn1, "_cross_attn": block.attn2, "_ffn": block.ffn}
        modules |= {f"block{index}{part}": module for part, module in parts.items()}
    seen: dict[str, Tensor] = {}
    with ExitStack() as stack:
        for name in wanted:
            handle = modules[name].register_forward_hook(
                lambda _m, _i, out, name=name: seen.update({name: out})
            )
            stack.callback(handle.remove)
        yield seen


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("path", FILES, ids=named)
def test_wan_chunks_match_the_public_code(path: Path, kernel: str) -> None:
    recorded = golden(path)
    run = rollout(recorded, kernel)
    model, expected = run.model, recorded.tensors
    text = model.text(expected["in/prompt_embeds"])
    recorded.assert_close(text.layers[0][0], "out/crossattn_k0")
    recorded.assert_close(text.layers[0][1], "out/crossattn_v0")
    for chunk, t in zip(range(num_chunks(recorded)), recorded.facts["timesteps"], strict=True):
        noisy = channels_first(expected[f"in/chunk{chunk}/noisy"])
        clean = channels_first(expected[f"in/chunk{chunk}/clean"])
        rope = model.rope(noisy.shape[2], *run.size, start=run.frame)
        with run.cache.stage(noisy.shape[2] * run.frame_tokens) as stage:
            attends = run.plan(stage)
            start = run.cache.tokens
            flow = model(noisy, torch.tensor([float(t)]), text, rope, attends)
            recorded.assert_close(channels_first(flow), f"out/chunk{chunk}/noisy_flow")
            x0 = run.schedule.x0(noisy, flow, run.schedule.sigma(t))
            recorded.assert_close(channels_first(x0), f"out/chunk{chunk}/noisy_x0")
            if f"out/chunk{chunk}/mixed_t_flow" in expected:
                mixed = model(noisy, expected["in/mixed_t"].float(), text, rope, attends)
                recorded.assert_close(channels_first(mixed), f"out/chunk{chunk}/mixed_t_flow")
            flow = model(clean, torch.tensor([0.0]), text, rope, attends)
            recorded.assert_close(channels_first(flow), f"out/chunk{chunk}/ctx_flow")
            model(noisy, torch.tensor([float(t)]), text, rope, attends)
            model.remember(clean, torch.tensor([0.0]), text, rope, attends)
            stage.commit()
        run.frame += noisy.shape[2]
        for layer in range(model.layers):
            k, v = run.cache.read(layer, slice(start, None))
            recorded.assert_close(k[None], f"out/chunk{chunk}/ctx_k{layer}")
            recorded.assert_close(v[None], f"out/chunk{chunk}/ctx_v{layer}")


@pytest.mark.parametrize("path", FILES, ids=named)
def test_wan_activations_match_the_public_code(path: Path) -> None:
    recorded = golden(path)
    names = recorded.names("act/")
    if not names:
        pytest.skip("no activations were recorded")
    chunk = int(re.match(r"chunk(\d+)_noisy/", names[0])[1])  # type: ignore[index]
    wanted = [name.split("/")[1] for name in names]
    run = rollout(recorded, "reference")
    model = run.model
    noisy = channels_first(recorded.tensors[f"in/chunk{chunk}/noisy"])
    with recorded_activations(model, wanted) as seen:
        text = model.text(recorded.tensors["in/prompt_embeds"])
        for earlier in range(chunk):
            run.take(channels_first(recorded.tensors[f"in/chunk{earlier}/clean"]), text)
        rope = model.rope(noisy.shape[2], *run.size, start=run.frame)
        t = torch.full((1, noisy.shape[2]), float(recorded.facts["timesteps"][chunk]))
        with run.cache.stage(noisy.shape[2] * run.frame_tokens) as stage:
            model(noisy, t, text, rope, run.plan(stage))
    for name in wanted:
        expected = recorded.tensors[f"act/chunk{chunk}_noisy/{name}"]
        recorded.assert_equal_to(seen[name].reshape(expected.shape), expected, name)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("path", FILES, ids=named)
def test_wan_chunks_equal_the_public_block_causal_forward(path: Path, kernel: str) -> None:
    recorded = golden(path)
    run = rollout(recorded, kernel)
    text = run.model.text(recorded.tensors["in/prompt_embeds"])
    flows = []
    for chunk in range(num_chunks(recorded)):
        clean = channels_first(recorded.tensors[f"in/chunk{chunk}/clean"])
        rope = run.model.rope(clean.shape[2], *run.size, start=run.frame)
        with run.cache.stage(clean.shape[2] * run.frame_tokens) as stage:
            attends = run.plan(stage)
            flows.append(run.model(clean, torch.tensor([0.0]), text, rope, attends))
            stage.commit()
        run.frame += clean.shape[2]
    recorded.assert_close(channels_first(torch.cat(flows, dim=2)), "out/blockcausal_full_flow")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("path", FILES, ids=named)
def test_one_wan_chunk_of_all_frames_is_the_public_bidirectional_model(path: Path, kernel: str) -> None:
    recorded = golden(path)
    run = rollout(recorded, kernel)
    clean = [channels_first(recorded.tensors[f"in/chunk{c}/clean"]) for c in range(num_chunks(recorded))]
    x = torch.cat(clean, dim=2)
    text = run.model.text(recorded.tensors["in/prompt_embeds"])
    with run.cache.stage(x.shape[2] * run.frame_tokens) as stage:
        attends = run.plan(stage)
        t = recorded.tensors["in/bidirectional_t"].float()
        flow = run.model(x, t, text, run.model.rope(x.shape[2], *run.size), attends)
    recorded.assert_close(channels_first(flow), "out/bidirectional_flow")
