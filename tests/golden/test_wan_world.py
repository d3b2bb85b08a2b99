"""LongLive's prompt switches through the session of a world: the same numbers as the public code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from streamgen.kv.arena import Arena
from streamgen.models.wan import CausalWan
from streamgen.models.wan_vae import VaeState
from streamgen.pipelines.parts import VideoParts
from streamgen.pipelines.settings import VideoSettings
from streamgen.pipelines.world_parts import WorldParts, WorldRequest
from streamgen.pipelines.world_session import WorldSession
from streamgen.pipelines.world_settings import NO_ACTIONS
from tests.golden.fixtures import Golden, golden, named, variants
from tests.golden.wan_models import channels_first, transformer

SCALE = 2


class Painter:
    """In the place of the VAE: the numbers of interest are the latents."""

    scale, time_scale = SCALE, 1

    def __init__(self, channels: int) -> None:
        self.channels = channels

    def decoder_state(self) -> VaeState:
        return VaeState(())

    def decode(self, latents: Tensor, state: VaeState) -> tuple[Tensor, VaeState]:
        frames = latents.shape[2]
        return torch.linspace(-1, 1, frames * 48).view(1, 3, frames, 4, 4), VaeState(
            (), state.frames + frames
        )


class Recorded(WorldSession):
    """Draws the recorded noise."""

    golden: Golden

    def noise(self, step: int, frames: int) -> Tensor:
        index, tensors = self.moment.index, self.golden.tensors
        if step:
            return channels_first(tensors[f"renoise/chunk{index}_step{step - 1}"])
        return channels_first(tensors["noise"][:, index * frames : (index + 1) * frames])


def parts(recorded: Golden, facts: dict[str, Any], attention: str) -> tuple[WorldParts, WorldRequest]:
    """What a world session is made of, from what the file states."""
    latent = recorded.facts["latent"]
    window = facts["F"] if facts["local"] == -1 else facts["local"] - facts["sink"]
    size = (latent["W"] * SCALE, latent["H"] * SCALE)
    steps = tuple(recorded.facts["denoising_steps"])
    settings = VideoSettings(
        fps=16,
        size=size,
        chunk=facts["nfpb"],
        window=window,
        sink=facts["sink"],
        independent_first_frame=False,
        context_noise=recorded.facts["context_noise"],
        shift=recorded.facts["timestep_shift"],
        steps=steps,
        warp=recorded.facts["warp_denoising_step"],
        prediction="flow_prediction",
        sampler="renoise",
        planes=(),
        text_length=12,
        positions="window" if facts["inf"] else "absolute",
    )

    def text(prompts: Sequence[str]) -> Tensor:
        return recorded.tensors[f"in/prompt_{prompts[0]}"]

    model = CausalWan(transformer(recorded))
    video = VideoParts(model, Painter(latent["C"]), text, settings, attention, Arena())  # type: ignore[arg-type]
    request = WorldRequest(facts["plist"][0], 0, size, steps, window, facts["sink"], 1, None)
    return WorldParts("golden", video, NO_ACTIONS), request


@pytest.mark.parametrize("attention", ["reference", "sdpa"])
@pytest.mark.parametrize(
    ("path", "variant"), variants("wan", "longlive_recache") + variants("wan", "longlive_infinity"), ids=named
)
def test_wan_longlive_switches_match_through_a_world_session(
    path: Path, variant: str, attention: str
) -> None:
    recorded = golden(path)
    facts = recorded.facts["variants"][variant]
    made, request = parts(recorded, facts, attention)
    switches = list(zip(facts["switch"], facts["plist"][1:], strict=True))
    latents = []
    Recorded.golden = recorded
    with Recorded.start(made, request) as session:
        while session.moment.latent < facts["F"]:
            if switches and session.moment.latent >= switches[0][0]:
                remembered = session.moment.recent.shape[2]
                receipt = session.set_prompt(switches.pop(0)[1], mode="window", pin_sink=facts["gsink"])
                assert receipt.chunk == session.moment.index and receipt.forwards == 1
                per_frame = made.video.model.frame_tokens(*made.latent_size(request))
                assert receipt.tokens == remembered * per_frame
                compare(session, recorded, facts, f"{variant}/after_recache{receipt.number}/")
            latents.append(channels_first(session.step().latents))
        assert session.memory.cache.tokens == facts["end"]["local_end_index"]
    recorded.assert_close(torch.cat(latents, dim=1), f"{variant}/latents")


def compare(session: WorldSession, recorded: Golden, facts: dict[str, Any], prefix: str) -> None:
    """The recached keys and values; the endless variant of the public code stores keys without positions."""
    for name in recorded.names(prefix):
        k, v = session.memory.cache.read(int(name[1:]))
        if name[0] == "v" or not facts["inf"]:
            recorded.assert_close((v if name[0] == "v" else k)[None], prefix + name)
