"""Whole rollouts of Self-Forcing, CausVid and LongLive, through the stock class and the real cache."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from streamgen.models.wan import CausalWan
from streamgen.pipelines.denoise import LatentStream, StreamRules
from streamgen.pipelines.recache import recache
from streamgen.sampling.flow import FlowSchedule
from tests.golden.fixtures import Golden, files, golden, kind, named, variants
from tests.golden.wan_models import KERNELS, channels_first, stream, transformer

KINDS = {
    "wan_causal_block", "self_forcing_rollout", "causvid_rollout", "longlive_recache", "longlive_infinity",
    "wan_vae_stream", "umt5_encoder",
}  # fmt: skip


def schedule(recorded: Golden, steps: list[int], warp: bool) -> FlowSchedule:
    return FlowSchedule(recorded.facts["timestep_shift"], tuple(steps), warp, "flow_prediction", "renoise")


def size(recorded: Golden) -> tuple[int, int]:
    latent = recorded.facts["latent"]
    return latent["H"], latent["W"]


def chunks(frames: int, chunk: int, first: int) -> Iterator[int]:
    """Chunk sizes: the first one may differ."""
    while frames > 0:
        yield min(first, frames)
        frames -= first
        first = chunk


def generate(run: LatentStream, recorded: Golden, prefix: str, index: int, x: Tensor, text: Any) -> Tensor:
    def fresh(step: int) -> Tensor:
        return channels_first(recorded.tensors[f"{prefix}renoise/chunk{index}_step{step - 1}"])

    return channels_first(run.generate(channels_first(x), fresh, text))


def test_every_wan_fixture_has_a_test() -> None:
    assert {kind(path) for path in files("wan")} <= KINDS


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("path", "variant"), variants("wan", "self_forcing_rollout"), ids=named)
def test_wan_self_forcing_rollouts_match_the_public_code(path: Path, variant: str, kernel: str) -> None:
    recorded = golden(path)
    facts = recorded.facts["variants"][variant]
    expected, noise = recorded.tensors[f"{variant}/latents"], recorded.tensors[f"{variant}/noise"]
    given = recorded.tensors.get(f"{variant}/initial_latent", noise[:, :0])
    window = None if facts["local_attn_size"] == -1 else facts["local_attn_size"] - facts["sink_size"]
    rules = StreamRules(window, facts["sink_size"], facts["context_noise"], "absolute")
    steps = schedule(recorded, recorded.facts["denoising_steps"], recorded.facts["warp_denoising_step"])
    assert steps.timesteps == pytest.approx(facts["denoising_step_list"])
    model = CausalWan(transformer(recorded))
    estimates: list[Tensor] = []
    run = stream(model, traced(steps, estimates), rules, size(recorded), expected.shape[1], kernel)
    text = model.text(recorded.tensors["in/prompt_p0"])
    chunk = facts["num_frame_per_block"]
    first = 1 if facts["independent_first_frame"] else chunk
    for piece in given.split(list(chunks(given.shape[1], chunk, first)), dim=1) if given.shape[1] else ():
        run.take(channels_first(piece), text)
    latents = [given]
    first = chunk if given.shape[1] else first
    for index, x in enumerate(noise.split(list(chunks(noise.shape[1], chunk, first)), dim=1)):
        latents.append(generate(run, recorded, f"{variant}/", index, x, text))
    recorded.assert_close(torch.cat(latents, dim=1), f"{variant}/latents")
    compare_trace(recorded, f"{variant}/trace/", steps, estimates)
    assert run.frame * run.frame_tokens == facts["global_end_index"]
    assert run.cache.tokens == facts["local_end_index"]
    if f"{variant}/final_cache_k_last_layer" in recorded.tensors:
        keys, _ = run.cache.read(model.layers - 1, slice(None))
        recorded.assert_close(keys[None], f"{variant}/final_cache_k_last_layer")


def compare_trace(recorded: Golden, prefix: str, steps: FlowSchedule, estimates: list[Tensor]) -> None:
    """Every recorded estimate and time; one that was not recorded is not looked at."""
    for name in recorded.names(prefix):
        chunk, step, what = re.fullmatch(r"chunk(\d+)_step(\d+)_(x0|t)", name).groups()  # type: ignore[union-attr]
        if what == "x0":
            estimate = estimates[int(chunk) * len(steps.timesteps) + int(step)]
            recorded.assert_close(channels_first(estimate), prefix + name)
        else:
            times = recorded.tensors[prefix + name]
            recorded.assert_equal_to(torch.full_like(times, steps.timesteps[int(step)]), times, name)


def traced(plain: FlowSchedule, seen: list[Tensor]) -> FlowSchedule:
    """The same schedule, which puts every estimate into `seen`."""

    class Traced(FlowSchedule):
        def x0(self, x: Tensor, out: Tensor, sigma: float) -> Tensor:
            seen.append(super().x0(x, out, sigma))
            return seen[-1]

    return Traced(plain.shift, plain.steps, plain.warp, plain.prediction, plain.sampler)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("path", "variant"), variants("wan", "causvid_rollout"), ids=named)
def test_wan_causvid_rollouts_match_the_public_code(path: Path, variant: str, kernel: str) -> None:
    recorded = golden(path)
    facts = recorded.facts["variants"][variant]
    noise = recorded.tensors[f"{variant}/noise"]
    given = recorded.tensors.get(f"{variant}/start_latents", noise[:, :0])
    listed = facts["steps"][:-1] if facts["steps"][-1] == 0 else facts["steps"]  # upstream drops a last 0
    steps = schedule(recorded, listed, facts["warp"])
    assert steps.timesteps == pytest.approx(facts["denoising_timesteps"])
    assert steps.sigmas == pytest.approx(facts["sigmas"])
    model = CausalWan(transformer(recorded))
    rules = StreamRules(None, 0, 0, "absolute")
    run = stream(model, steps, rules, size(recorded), noise.shape[1], kernel)
    text = model.text(recorded.tensors["in/prompt_p0"])
    chunk = recorded.facts["num_frame_per_block"]
    latents = []
    for index, x in enumerate(noise.split(chunk, dim=1)):
        if index * chunk < given.shape[1]:
            latents.append(given[:, index * chunk : (index + 1) * chunk])
            run.take(channels_first(latents[-1]), text)
        else:
            latents.append(generate(run, recorded, f"{variant}/", index, x, text))
    recorded.assert_close(torch.cat(latents, dim=1), f"{variant}/latents")


def switched(
    run: LatentStream, recorded: Golden, facts: dict[str, Any], at_switch: Callable[[int], None]
) -> Tensor:
    """A LongLive rollout: a prompt switch waits for the next chunk and rewrites the memory first."""
    texts = [run.model.text(recorded.tensors[f"in/prompt_{name}"]) for name in facts["plist"]]
    switches, segment, latents = list(facts["switch"]), 0, recorded.tensors["noise"][:, :0]
    for index, x in enumerate(recorded.tensors["noise"][:, : facts["F"]].split(facts["nfpb"], dim=1)):
        if switches and run.frame >= switches[0]:
            switches.pop(0)
            segment += 1
            past = channels_first(latents[:, latents.shape[1] - run.remembered :])
            recache(run, past, texts[segment], keep_sink=facts["gsink"])
            at_switch(segment - 1)
        latents = torch.cat((latents, generate(run, recorded, "", index, x, texts[segment])), dim=1)
    return latents


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("path", "variant"), variants("wan", "longlive_recache") + variants("wan", "longlive_infinity"), ids=named
)
def test_wan_longlive_prompt_switches_match_the_public_code(path: Path, variant: str, kernel: str) -> None:
    recorded = golden(path)
    facts = recorded.facts["variants"][variant]
    window = None if facts["local"] == -1 else facts["local"] - facts["sink"]
    positions = "window" if facts["inf"] else "absolute"
    rules = StreamRules(window, facts["sink"], recorded.facts["context_noise"], positions)
    steps = schedule(recorded, recorded.facts["denoising_steps"], recorded.facts["warp_denoising_step"])
    model = CausalWan(transformer(recorded))
    run = stream(model, steps, rules, size(recorded), facts["F"], kernel)

    def compare(switch: int) -> None:
        for name in recorded.names(f"{variant}/after_recache{switch}/"):
            k, v = run.cache.read(int(name[1:]), slice(None))
            actual = (raw_keys(run, k) if facts["inf"] else k) if name[0] == "k" else v
            recorded.assert_close(actual[None], f"{variant}/after_recache{switch}/{name}")

    latents = switched(run, recorded, facts, compare)
    recorded.assert_close(latents, f"{variant}/latents")
    assert run.frame * run.frame_tokens == facts["end"]["global_end_index"]
    assert run.cache.tokens == facts["end"]["local_end_index"]


def raw_keys(run: LatentStream, keys: Tensor) -> Tensor:
    """Keys before their rotation: the endless variant of the public code stores them so."""
    first = run.frame - run.remembered
    rope = run.model.rope(run.remembered, *run.size, start=first)
    back = type(rope)(rope.cos, -rope.sin)
    return back.turn(keys[None])[0]
