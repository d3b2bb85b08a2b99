"""The public Wan VAE, whole and in pieces, through the stock class."""

from pathlib import Path

import pytest
import torch

from streamgen.models.wan_vae import StreamingVAE
from tests.golden.fixtures import golden, named, of_kind
from tests.golden.wan_models import channels_first, vae

FILES = of_kind("wan", "wan_vae_stream")


@pytest.mark.parametrize("path", FILES, ids=named)
def test_wan_vae_decodes_a_stream_in_any_pieces_like_the_public_whole(path: Path) -> None:
    recorded = golden(path)
    codec = StreamingVAE(vae(recorded))
    latents = channels_first(recorded.tensors["in/latents"])
    whole, _ = codec.decode(latents, codec.decoder_state())
    recorded.assert_close(channels_first(whole), "out/pixels_full")
    for pieces in (recorded.facts["stream_chunks"], [1] * latents.shape[2]):
        state, frames = codec.decoder_state(), []
        for piece in latents.split(pieces, dim=2):
            part, state = codec.decode(piece, state)
            frames.append(part)
        assert torch.equal(torch.cat(frames, dim=2), whole)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_wan_vae_encodes_a_stream_in_any_pieces_like_the_public_whole(path: Path) -> None:
    recorded = golden(path)
    codec = StreamingVAE(vae(recorded))
    pixels = recorded.tensors["in/pixels"]
    whole, _ = codec.encode(pixels, codec.encoder_state())
    recorded.assert_close(channels_first(whole), "out/latents")
    state, latents = codec.encoder_state(), []
    for piece in pixels.split([1] + [codec.time_scale] * (whole.shape[2] - 1), dim=2):
        part, state = codec.encode(piece, state)
        latents.append(part)
    assert torch.equal(torch.cat(latents, dim=2), whole)
