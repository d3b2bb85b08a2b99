"""The quantiser and the layers, each against its definition."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from streamgen.models.vqvae_layers import Norm
from streamgen.models.vqvae_loading import prepare
from streamgen.models.vqvae_scales import phi_index
from tests.pipelines.image_models import make_vqvae


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [3, 5, 40])
def test_the_norm_is_exact_where_values_lie_far_from_zero(size: int) -> None:
    norm = Norm(32, 64, eps=1e-6)
    x = 0.3 * torch.randn(2, 64, size, size, generator=generator()) + 5
    x = x.contiguous(memory_format=torch.channels_last)
    truth = F.group_norm(x.double().contiguous(), 32, norm.weight.double(), norm.bias.double(), 1e-6)
    torch.testing.assert_close(norm(x).double(), truth, atol=1e-5, rtol=1e-5)
    assert norm(x).is_contiguous(memory_format=torch.channels_last)


def test_ten_scales_share_four_phis_unevenly() -> None:
    assert [phi_index(scale, 10, 4) for scale in range(10)] == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    assert [phi_index(scale, 5, 1) for scale in range(5)] == [0] * 5
    assert [phi_index(scale, 3, 3) for scale in range(3)] == [0, 1, 2]


def test_each_scale_codes_what_the_coarser_ones_left() -> None:
    vae, patches = make_vqvae(), (1, 2, 4)
    latent = torch.randn(2, 8, 4, 4, generator=generator())
    with torch.no_grad():
        encoded = vae.quantize.encode(latent, patches)
        rest = latent - encoded.sums[1]
        nearest = torch.cdist(rest.flatten(2).transpose(1, 2), vae.quantize.codebook).argmin(-1)
    assert torch.equal(encoded.tokens[2], nearest)
    assert [tokens.shape[1] for tokens in encoded.tokens] == [1, 4, 16]


@torch.no_grad()
def test_layout_and_batch_do_not_change_a_picture() -> None:
    vae = make_vqvae()
    latent = torch.randn(3, 8, 4, 4, generator=generator())
    plain = vae.decoder(vae.post_quant_conv(latent)).clamp(-1, 1)
    prepare(vae, torch.float32)
    torch.testing.assert_close(vae.decode(latent), plain, atol=2e-5, rtol=0)
    torch.testing.assert_close(vae.decode(latent[1:2]), plain[1:2], atol=2e-5, rtol=0)


@torch.no_grad()
def test_bf16_pictures_look_the_same() -> None:
    vae = make_vqvae()
    latent = torch.randn(1, 8, 4, 4, generator=generator())
    truth = vae.decode(latent)
    prepare(vae, torch.bfloat16)
    seen = vae.decode(latent)
    assert seen.dtype == torch.float32 and vae.quantize.codebook.dtype == torch.float32
    assert float(np.abs((seen - truth).numpy()).mean()) < 0.02
