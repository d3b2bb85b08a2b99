"""StreamingVAE: pieces are the whole, and streams do not mix."""

import pytest
import torch
from torch import Tensor

from streamgen.models.wan_vae import StreamingVAE, VaeState
from tests.models import tiny

SCALES = (1, 2, 4)


def latents(frames: int, seed: int = 0) -> Tensor:
    return torch.randn(1, tiny.LATENTS, frames, 2, 3, generator=torch.Generator().manual_seed(seed))


def decode(
    codec: StreamingVAE, pieces: list[Tensor], state: VaeState | None = None
) -> tuple[Tensor, VaeState]:
    state, frames = state or codec.decoder_state(), []
    for piece in pieces:
        part, state = codec.decode(piece, state)
        frames.append(part)
    return torch.cat(frames, dim=2), state


@pytest.mark.parametrize("time_scale", SCALES)
@pytest.mark.parametrize("chunk", [1, 2, 3, 4])
def test_decoding_in_chunks_is_the_whole_bit_by_bit(time_scale: int, chunk: int) -> None:
    codec = StreamingVAE(tiny.vae(time_scale))
    x = latents(7)
    whole, _ = decode(codec, [x])
    assert torch.equal(decode(codec, list(x.split(chunk, dim=2)))[0], whole)
    assert whole.shape == (1, 3, 1 + 6 * time_scale, 2 * codec.scale, 3 * codec.scale)
    assert whole.shape[2] == codec.pixel_frames(7, first=True)
    assert codec.pixel_frames(3, first=False) == 3 * time_scale


def test_decoding_is_the_stock_decoder() -> None:
    stock = tiny.vae(4)
    raw = latents(3) * torch.tensor(1.5) + 0.1
    expected = stock.decode(raw).sample
    codec = StreamingVAE(stock)
    torch.testing.assert_close(decode(codec, [latents(3)])[0], expected, atol=1e-5, rtol=1e-5)


def test_two_streams_over_one_model_do_not_mix() -> None:
    codec = StreamingVAE(tiny.vae(4))
    a, b = latents(4, seed=1), latents(4, seed=2)
    alone, _ = decode(codec, [a])
    state_a, state_b, frames = codec.decoder_state(), codec.decoder_state(), []
    for piece_a, piece_b in zip(a.split(1, dim=2), b.split(1, dim=2), strict=True):
        part, state_a = codec.decode(piece_a, state_a)
        _, state_b = codec.decode(piece_b, state_b)
        frames.append(part)
    assert torch.equal(torch.cat(frames, dim=2), alone)


def test_a_state_is_a_value_so_a_fork_keeps_the_old_one() -> None:
    codec = StreamingVAE(tiny.vae(4))
    x = latents(5)
    _, here = decode(codec, [x[:, :, :3]])
    first, _ = decode(codec, [x[:, :, 3:]], here)
    decode(codec, [latents(2, seed=9)], here)
    again, _ = decode(codec, [x[:, :, 3:]], here)
    assert torch.equal(first, again)
    assert here.nbytes > 0


@pytest.mark.parametrize("time_scale", SCALES)
def test_encoding_in_pieces_is_the_whole(time_scale: int) -> None:
    codec = StreamingVAE(tiny.vae(time_scale))
    pixels = torch.rand(1, 3, 1 + 3 * time_scale, 16, 24) * 2 - 1
    whole, _ = codec.encode(pixels, codec.encoder_state())
    assert whole.shape == (1, tiny.LATENTS, 4, 4, 6)
    first, state = codec.encode(pixels[:, :, : 1 + time_scale], codec.encoder_state())
    rest, _ = codec.encode(pixels[:, :, 1 + time_scale :], state)
    assert torch.equal(torch.cat((first, rest), dim=2), whole)


def test_frames_that_make_no_whole_latent_are_refused() -> None:
    codec = StreamingVAE(tiny.vae(4))
    with pytest.raises(ValueError, match=r"takes 1 \+ 4 n frames \(at the start"):
        codec.encode(torch.zeros(1, 3, 4, 16, 24), codec.encoder_state())
    _, state = codec.encode(torch.zeros(1, 3, 1, 16, 24), codec.encoder_state())
    with pytest.raises(ValueError, match=r"takes 4 n frames \(in the middle"):
        codec.encode(torch.zeros(1, 3, 5, 16, 24), state)


def test_pixel_patches_of_the_stock_vae_are_honoured() -> None:
    from diffusers import AutoencoderKLWan

    stock = tiny.seeded(
        AutoencoderKLWan(
            base_dim=4,
            z_dim=4,
            dim_mult=[1, 1],
            num_res_blocks=1,
            temperal_downsample=[True],
            in_channels=12,
            out_channels=12,
            patch_size=2,
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
            scale_factor_temporal=2,
        )
    )
    codec = StreamingVAE(stock)
    expected = stock.decode(latents(3)).sample
    torch.testing.assert_close(decode(codec, [latents(3)])[0], expected, atol=1e-5, rtol=1e-5)
    pixels = torch.rand(1, 3, 1, 8, 12)
    expected = stock.encode(pixels).latent_dist.mode()
    torch.testing.assert_close(codec.encode(pixels, codec.encoder_state())[0], expected, atol=1e-5, rtol=1e-5)
