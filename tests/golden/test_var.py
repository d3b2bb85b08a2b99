"""VAR and its VQ-VAE against the public code: greedy, sampled and soft runs, the plain forward, pictures."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from streamgen.models.vqvae_scales import as_map, phi_index
from streamgen.pipelines.image_scales import Choice, Choose, Scale, generate_scales
from streamgen.sampling.tokens import draw, exponential, guide, heat, keep_top_k, keep_top_p, soft_codes
from tests.golden.fixtures import named
from tests.golden.var_models import (
    KERNELS,
    Recorded,
    Settings,
    block_outputs,
    guided,
    memory,
    recorded,
    sets,
    settings,
)
from tests.models.var_oracle import teacher_forced

SETS = pytest.mark.parametrize(("path", "variant"), sets(), ids=named)
FULL_SETS = pytest.mark.parametrize(
    ("path", "variant"), [s for s in sets() if "sampled.tokens" in recorded(*s).expected], ids=named
)
Mix = Callable[[int, Tensor, Tensor], Tensor]  # a scale, its filtered logits, Gumbel noise -> code map


class Watch:
    """Chooses like the recorded run and keeps what it saw."""

    def __init__(self, run: Recorded, how: Settings, images: int, mix: Mix | None = None) -> None:
        self.run, self.how, self.images, self.mix = run, how, images, mix
        self.raw: list[Tensor] = []
        self.told: list[Tensor] = []
        self.kept: list[Tensor] = []
        self.codes: list[Tensor] = []
        self.generator = torch.Generator().manual_seed(how.seed)

    def __call__(self, scale: int, logits: Tensor) -> Choice:
        strength = self.how.cfg * self.run.model.config.progress(scale)
        told = guide(logits[: self.images], logits[self.images :], strength)
        kept = keep_top_p(keep_top_k(told, self.how.top_k), self.how.top_p)
        # The public code draws for the whole batch from one generator.
        tokens = draw(kept, self._noise(kept))
        codes = self.run.vae.quantize.codes(tokens)
        if self.mix is not None:
            codes = self.mix(scale, kept, -self._noise(kept).log())
        self.raw.append(logits)
        self.told.append(told)
        self.kept.append(kept)
        self.codes.append(codes)
        return Choice(tokens, codes)

    def _noise(self, logits: Tensor) -> Tensor:
        return exponential(logits.flatten(0, 1).shape, [self.generator])[0].view_as(logits)


@torch.no_grad()
def scales(run: Recorded, labels: list[int], kernel: str, choose: Choose) -> list[Scale]:
    rows = guided(labels, run.model)
    with memory(run.model, kernel, len(rows)) as room:
        return list(generate_scales(run.model, run.vae, rows, room, choose))


def picture(run: Recorded, latent: Tensor) -> Tensor:
    with torch.no_grad():
        return (run.vae.decode(latent) + 1) / 2


@SETS
def test_var_sizes_are_read_off_the_files(path: Path, variant: str) -> None:
    run = recorded(path, variant)
    facts, found = run.facts["config"][variant], run.model.config
    assert (found.depth, found.width, found.heads) == (facts["depth"], facts["embed_dim"], facts["num_heads"])
    assert (found.classes, list(found.patches)) == (facts["num_classes"], facts["patch_nums"])
    assert (found.shared_adaln, found.unit_length) == (facts["shared_aln"], facts["attn_l2_norm"])
    assert found.hidden == facts["mlp_ratio"] * facts["embed_dim"]
    vae = run.facts["config"]["vae"]
    ladder = run.vae.config.ladder
    assert (run.vae.config.vocabulary, ladder.latent) == (vae["vocab_size"], vae["z_channels"])
    assert (ladder.base, list(ladder.multiples), ladder.blocks) == (
        vae["ch"],
        vae["ch_mult"],
        vae["num_res_blocks"],
    )
    assert (run.vae.config.phis, run.vae.config.kernel) == (vae["share_quant_resi"], vae["quant_conv_ks"])


@SETS
def test_var_scales_use_the_recorded_phis(path: Path, variant: str) -> None:
    run = recorded(path, variant)
    count = run.vae.config.phis
    indices = [phi_index(scale, len(run.patches), count) for scale in range(len(run.patches))]
    assert indices == run.facts["phi_index_per_scale"][variant]


@pytest.mark.parametrize("kernel", KERNELS)
@SETS
def test_var_greedy_run_matches_the_public_code(path: Path, variant: str, kernel: str) -> None:
    run = recorded(path, variant)
    watch = Watch(run, settings(run.facts, "greedy"), len(run.labels))
    with block_outputs(run.model) as blocks:
        done = scales(run, run.labels, kernel, watch)
    assert torch.equal(torch.cat([scale.tokens for scale in done], 1), run.expected["greedy.tokens"].long())
    depth, last = run.model.config.depth, len(run.patches) - 1
    for scale, result in enumerate(done):
        seen = {
            "logits_raw": watch.raw[scale],
            "logits_cfg": watch.told[scale],
            "f_hat": result.latent,
            **(
                {"next_map": run.vae.quantize.pooled(result.latent, run.patches[scale + 1])}
                if scale < last
                else {}
            ),
        }
        seen = {f"greedy.{name}.s{scale}": tensor for name, tensor in seen.items()}
        seen |= {f"greedy.hidden.s{scale}.block{i}": blocks[scale * depth + i] for i in range(depth)}
        for name in seen.keys() & run.expected.keys():
            run.assert_close(seen[name], name)
    run.assert_close(picture(run, done[-1].latent), "greedy.image")


@pytest.mark.parametrize("kernel", KERNELS)
@SETS
def test_var_cache_holds_the_recorded_keys_and_values(path: Path, variant: str, kernel: str) -> None:
    run = recorded(path, variant)
    watch, rows = Watch(run, settings(run.facts, "greedy"), len(run.labels)), guided(run.labels, run.model)
    with torch.no_grad(), memory(run.model, kernel, len(rows)) as room:
        for scale in generate_scales(run.model, run.vae, rows, room, watch):
            stored = run.patches[: scale.index + 1][: len(run.patches) - 1]
            assert room.caches[0].tokens == sum(side * side for side in stored)
        for where, layer, count in recorded_places(run, r"block(\d+)\.first(\d+)"):
            compare_cache(run, room.caches[0].read(int(layer), slice(0, count)), where)


@SETS
def test_var_last_scale_computes_the_recorded_keys_and_values(path: Path, variant: str) -> None:
    run = recorded(path, variant)
    watch, rows = Watch(run, settings(run.facts, "greedy"), len(run.labels)), guided(run.labels, run.model)
    with torch.no_grad(), memory(run.model, "sdpa", len(rows)) as room:
        list(generate_scales(run.model, run.vae, rows, room, watch))
        k, v = room.layer.flat[0]  # what the last layer left in the room of the last scale
        end = run.model.config.tokens
        for where, _, count in recorded_places(run, r"(last)block\.last(\d+)"):
            compare_cache(run, (k[end - count : end], v[end - count : end]), where)


def recorded_places(run: Recorded, pattern: str) -> list[tuple[str, str, int]]:
    """Which pieces of the cache were recorded: name, block and number of positions."""
    found = [re.fullmatch(rf"greedy\.kcache\.({pattern})", name) for name in run.expected]
    return [(match[1], match[2], int(match[3])) for match in found if match]


def compare_cache(run: Recorded, pair: tuple[Tensor, Tensor], where: str) -> None:
    for name, tensor in zip(("kcache", "vcache"), pair, strict=True):
        run.assert_close(tensor.transpose(0, 1)[None], f"greedy.{name}.{where}")


@SETS
def test_var_plain_forward_matches_the_public_code(path: Path, variant: str) -> None:
    run = recorded(path, variant)
    with torch.no_grad():
        maps = next_maps(run, run.tokens("greedy.tokens"))
        joined = torch.cat([m.flatten(2).transpose(1, 2) for m in maps], 1)
        run.assert_close(joined, "tf.var_input")
        logits = teacher_forced(run.model, torch.tensor(run.labels), maps)
        run.assert_close(logits, "tf.logits")
        if "tf.logits_uncond_lastscale" in run.expected:
            untold = teacher_forced(
                run.model, torch.tensor([run.model.config.classes]), [m[:1] for m in maps]
            )
            run.assert_close(untold[:, -(run.patches[-1] ** 2) :], "tf.logits_uncond_lastscale")


def next_maps(run: Recorded, tokens: tuple[Tensor, ...]) -> list[Tensor]:
    """The inputs of all scales but the first, from the tokens of the scales before them."""
    latent, maps = torch.zeros(()), []
    for scale, side in enumerate(run.patches[1:]):
        latent = latent + run.vae.quantize.part(run.vae.quantize.codes(tokens[scale]), scale, run.patches)
        maps.append(run.vae.quantize.pooled(latent, side))
    return maps


@FULL_SETS
def test_var_sampled_run_matches_the_public_code(path: Path, variant: str) -> None:
    run = recorded(path, variant)
    watch = Watch(run, settings(run.facts, "sampled"), len(run.labels))
    done = scales(run, run.labels, "sdpa", watch)
    kept = torch.cat(watch.kept, 1).isfinite()
    assert torch.equal(torch.cat([scale.tokens for scale in done], 1), run.expected["sampled.tokens"].long())
    assert torch.equal(kept, run.expected["sampled.kept_mask"].bool())
    run.assert_close(watch.told[-1], "sampled.logits_cfg.last")


def growth(run: Recorded, scale: int) -> float:
    """How much sharper the mix of a scale is than that of the first one.

    It divides its logits by a falling heat, and their rounding errors. After ten such scales the public
    float32 run is 1.4e-2 off itself in float64, so here each scale begins where the recorded one began.
    """
    return heat(0.0) / heat(run.model.config.progress(scale))


@FULL_SETS
def test_var_more_smooth_scales_match_the_public_code(path: Path, variant: str) -> None:
    run = recorded(path, variant)
    noise = run.expected["smooth.gumbel_noise"].split([side * side for side in run.patches], 1)
    mixed: list[Tensor] = []

    def mix(scale: int, kept: Tensor, drawn: Tensor) -> Tensor:
        torch.testing.assert_close(drawn, noise[scale])
        mixed.append(soft_map(run, scale, kept, noise[scale]))
        return run.expected[f"smooth.h.s{scale}"]

    done = scales(run, run.labels[:1], "sdpa", Watch(run, settings(run.facts, "smooth"), 1, mix))
    for scale, codes in enumerate(mixed):
        run.assert_close(codes, f"smooth.h.s{scale}", growth=growth(run, scale))
    assert torch.equal(
        torch.cat([scale.tokens for scale in done], 1), run.expected["smooth.tokens_sampled"].long()
    )
    run.assert_close(done[-1].latent, "smooth.f_hat.last")
    run.assert_close(picture(run, done[-1].latent)[:, :, ::2, ::2], "smooth.image")


@FULL_SETS
def test_var_more_smooth_run_without_noise_matches_the_public_code(path: Path, variant: str) -> None:
    run = recorded(path, variant)

    def mix(scale: int, kept: Tensor, drawn: Tensor) -> Tensor:
        return soft_map(run, scale, kept, torch.zeros_like(kept))

    watch = Watch(run, settings(run.facts, "smooth0"), 1, mix)
    done = scales(run, run.labels[:1], "sdpa", watch)
    last = len(run.patches) - 1
    run.assert_close(watch.told[-1], "smooth0.logits_cfg.last", growth=growth(run, last - 1))
    run.assert_close(done[-1].latent, "smooth0.f_hat.last", growth=growth(run, last))
    run.assert_close(picture(run, done[-1].latent)[:, :, ::2, ::2], "smooth0.image", growth=growth(run, last))


def soft_map(run: Recorded, scale: int, kept: Tensor, noise: Tensor) -> Tensor:
    return as_map(soft_codes(kept, noise, run.vae.quantize.codebook, run.model.config.progress(scale)))


@SETS
def test_var_pictures_are_encoded_and_decoded_as_by_the_public_code(path: Path, variant: str) -> None:
    run = recorded(path, variant)
    expected = run.vae_expected
    with torch.no_grad():
        latent = run.vae.latent(expected["image_u8"] / 255 * 2 - 1)
        encoded = run.vae.quantize.encode(latent, run.patches)
        seen = {"enc_f": latent, "recon": run.vae.decode(encoded.sums[-1])}
        seen |= {f"enc_f_hat.s{scale}": total for scale, total in enumerate(encoded.sums)}
        for scale, total in enumerate(encoded.sums):
            if f"recon_partial.s{scale}.stride4" in expected:
                seen[f"recon_partial.s{scale}.stride4"] = run.vae.decode(total)[:, :, ::4, ::4]
        maps = next_maps(run, encoded.tokens)
    seen["var_input"] = torch.cat([m.flatten(2).transpose(1, 2) for m in maps], 1)
    assert torch.equal(torch.cat(encoded.tokens, 1), expected["enc_tokens"].long())
    for name in seen.keys() & expected.keys():
        run.assert_close(seen[name], name, expected[name])
