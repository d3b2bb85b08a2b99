"""Vision-language models that stream equal the stock ones: bit for bit, whatever the positions.

Shapes: T tokens, L layers, A position axes.
"""

from typing import Any

import numpy as np
import pytest
import torch

from streamgen.errors import UsageError
from streamgen.models.vlm import Piece, StreamingVLM
from streamgen.models.vlm_families import LlavaVision
from streamgen.models.vlm_guidance import attention_to, looked_at
from streamgen.models.vlm_pixels import Pixels, fitted, patched
from tests.models.dense_attends import DenseAttend
from tests.models.tiny_vlms import FRAME_TOKENS, LAYERS, MAKERS, PIXELS, encode, pair

FAMILIES = list(MAKERS)


def frames(count: int = 4, seed: int = 0) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(seed).integers(0, 256, (count, 24, 16, 3), dtype=np.uint8)


def run(vlm: StreamingVLM, parts: list[Piece], attends: list[DenseAttend]) -> torch.Tensor:
    """The hidden states of pieces, one after the other."""
    start, out = 0, []
    for piece in parts:
        positions = piece.places + start
        start = int(positions.max()) + 1
        out.append(vlm(piece, [positions] * vlm.layers, attends))
    return torch.cat(out, dim=1)


def parts_of(family: str) -> list[Piece]:
    _, vlm, vision = pair(family)
    look = vision.look(frames(), [0.0, 0.5, 1.0, 1.5])
    return [vlm.words(encode("look ")), look, vlm.words(encode(" what"))]


def stock_states(family: str, parts: list[Piece]) -> torch.Tensor:
    """The stock language model on the same embeddings, in one pass with a mask of its own."""
    stock, vlm, _ = pair(family)
    start, positions = 0, []
    for piece in parts:
        positions.append(piece.places + start)
        start = int(positions[-1].max()) + 1
    ids = torch.from_numpy(np.concatenate(positions))
    embeds = torch.cat([piece.embeds for piece in parts], dim=1)
    more: dict[str, Any] = {}
    if parts[1].lifts:
        seen = torch.zeros(embeds.shape[:2], dtype=torch.bool)
        seen[:, parts[0].tokens : parts[0].tokens + parts[1].tokens] = True
        more = {"visual_pos_masks": seen, "deepstack_visual_embeds": [lift[0] for lift in parts[1].lifts]}
    where = ids[None] if vlm.axes == 1 else ids.T[:, None]
    states: torch.Tensor = stock.model.language_model(
        inputs_embeds=embeds, position_ids=where, use_cache=False, **more
    ).last_hidden_state
    return states


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_in_one_piece_every_bit_is_that_of_the_stock_model(family: str) -> None:
    _, vlm, _ = pair(family)
    parts = parts_of(family)
    whole = joined(parts)
    streamed = vlm(whole, [whole.places] * LAYERS, [DenseAttend() for _ in range(LAYERS)])
    assert torch.equal(streamed, stock_states(family, parts))


def joined(parts: list[Piece]) -> Piece:
    start, places = 0, []
    for piece in parts:
        places.append(piece.places + start)
        start = int(places[-1].max()) + 1
    before, after = parts[0].embeds, parts[-1].embeds
    blank = torch.zeros_like
    lifts = tuple(torch.cat([blank(before), lift, blank(after)], dim=1) for lift in parts[1].lifts)
    return Piece(
        torch.cat([piece.embeds for piece in parts], dim=1),
        np.concatenate(places),
        np.concatenate([piece.owners for piece in parts]),
        lifts,
    )


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_piece_by_piece_equals_the_stock_model(family: str) -> None:
    _, vlm, _ = pair(family)
    parts = parts_of(family)
    streamed = run(vlm, parts, [DenseAttend() for _ in range(LAYERS)])
    torch.testing.assert_close(streamed, stock_states(family, parts), atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_llava_tokens_are_those_of_the_stock_model_without_the_newline() -> None:
    stock, _, vision = pair("llava_onevision")
    pixels = PIXELS.prepared(frames(), (24, 24), "cpu")
    seen = stock.model.get_video_features(pixels[None], return_dict=True).pooler_output
    piece = vision.look(frames(), [0.0] * 4)
    assert torch.equal(piece.embeds, seen[:, :-1])
    assert piece.tokens == vision.most_tokens(4) == 16
    assert piece.owners.tolist() == [owner for owner in range(4) for _ in range(4)]


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
@torch.no_grad()
def test_positions_of_a_video_are_those_of_the_stock_model(family: str) -> None:
    stock, vlm, vision = pair(family)
    piece = vision.look(frames(6), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
    ids, kinds = stock_ids(family, vlm)
    grid = torch.tensor([[3, 6, 4]])
    expected, _ = stock.model.get_rope_index(
        torch.tensor([ids]),
        torch.tensor([kinds]),
        video_grid_thw=grid,
        second_per_grid_ts=torch.tensor([1.0]),
    )
    assert np.array_equal(piece.places, expected[:, 0].T.numpy())


def stock_ids(family: str, vlm: StreamingVLM) -> tuple[list[int], list[int]]:
    """What a stock processor would write for three grids of 6 tokens, and which of it is video (2)."""
    if family == "qwen2_5_vl":
        return [61] * 18, [2] * 18
    ids: list[int] = []
    kinds: list[int] = []
    for step in range(3):
        text = [*encode(f"<{step + 0.25:.1f} seconds>"), 62]
        ids += [*text, *[61] * 6, 63]
        kinds += [0] * len(text) + [2] * 6 + [0]
    return ids, kinds


@torch.no_grad()
def test_qwen25_positions_go_by_the_clock_of_the_frames() -> None:
    _, _, vision = pair("qwen2_5_vl")
    piece = vision.look(frames(6), [7.0, 7.5, 8.0, 9.0, 12.0, 12.5])
    assert sorted(set(piece.places[:, 0].tolist())) == [0, 2, 10]


@torch.no_grad()
def test_qwen3_says_the_time_of_each_picture() -> None:
    _, vlm, vision = pair("qwen3_vl")
    piece = vision.look(frames(3), [10.0, 10.5, 11.0])
    words = encode("<10.2 seconds>")
    assert torch.equal(piece.embeds[0, : len(words)], vlm.words(words).embeds[0])
    assert piece.owners[-1] == 1
    assert piece.tokens <= vision.most_tokens(3)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_moved_keys_are_the_keys_of_the_place_they_moved_to(family: str) -> None:
    _, vlm, _ = pair(family)
    raw = torch.randn(9, 2, vlm.head_dim, generator=torch.Generator().manual_seed(1))
    old, new = (torch.randint(0, 900, (9, 3), generator=torch.Generator().manual_seed(s)) for s in (2, 3))
    if vlm.axes == 1:
        old, new = old[:, 0], new[:, 0]
    here, there = vlm.rotate(raw, old), vlm.rotate(raw, new)
    torch.testing.assert_close(vlm.rotate(here, new - old), there, atol=5e-4, rtol=0)
    assert torch.equal(vlm.rotate(raw, torch.zeros_like(old)), raw)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_guidance_looks_at_keys_as_the_layer_itself_would(family: str) -> None:
    _, vlm, _ = pair(family)
    layer, text = 2, vlm.words(encode("guide"))
    keys = torch.randn(12, vlm.kv_heads, vlm.head_dim, generator=torch.Generator().manual_seed(4))
    places = vlm.on_axes(np.arange(text.tokens) + 30)
    found = attention_to(vlm, layer, text.embeds, places, keys)
    site = vlm.text.layers[layer]
    hidden = site.input_layernorm(text.embeds)
    q, k = (
        linear(hidden).unflatten(-1, (-1, vlm.head_dim))
        for linear in (site.self_attn.q_proj, site.self_attn.k_proj)
    )
    if hasattr(site.self_attn, "q_norm"):
        q, k = site.self_attn.q_norm(q), site.self_attn.k_norm(k)
    turned = [vlm.rotate(part[0], torch.from_numpy(places)) for part in (q, k)]
    every = torch.cat([keys, turned[1]]).repeat_interleave(vlm.heads // vlm.kv_heads, dim=1)
    scores = torch.einsum("qhd,nhd->hqn", turned[0], every) / vlm.head_dim**0.5
    expected = scores.softmax(-1).mean((0, 1))[:12]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert float(looked_at(turned[0], torch.cat([keys, turned[1]])).sum()) == pytest.approx(1, abs=1e-5)


def test_a_preprocessor_of_another_size_is_refused() -> None:
    vlm = pair("llava_onevision")[1]
    with pytest.raises(UsageError, match="48x48"):
        LlavaVision(vlm, Pixels((48, 48), (0.5,) * 3, (0.5,) * 3))


def test_a_rope_that_changes_with_the_length_is_refused() -> None:
    model = MAKERS["llava_onevision"]()
    model.model.language_model.config.rope_parameters["rope_type"] = "dynamic"
    with pytest.raises(UsageError, match="dynamic"):
        StreamingVLM(model)


def test_layers_with_windows_of_their_own_are_refused() -> None:
    model = MAKERS["llava_onevision"]()
    model.model.language_model.config.layer_types = ["sliding_attention"] * LAYERS
    with pytest.raises(UsageError, match="sliding_attention"):
        StreamingVLM(model)


def test_pictures_of_any_size_fit_their_tokens() -> None:
    for height, width in ((720, 1280), (30, 30), (100, 2000), (8, 8)):
        rows, columns = fitted(height, width, 8, FRAME_TOKENS)
        assert rows % 8 == columns % 8 == 0
        assert rows * columns // 64 <= FRAME_TOKENS
    with pytest.raises(UsageError, match="narrow"):
        fitted(1, 1000, 8, FRAME_TOKENS)


def test_a_lonely_frame_is_doubled_to_fill_its_grid() -> None:
    pixels = torch.rand(3, 3, 16, 8)
    patches, grid = patched(pixels, 4, 2, 2)
    assert grid.tolist() == [[2, 4, 2]]
    assert patches.shape == (16, 3 * 2 * 16)
    assert torch.equal(patched(torch.cat([pixels, pixels[-1:]]), 4, 2, 2)[0], patches)


def test_pixels_are_read_off_the_preprocessor(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="preprocessor"):
        Pixels.load(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"size": {"height": 4, "width": 6}, "image_mean": [0, 0, 0], "image_std": [1, 1, 1], "resample": 2}'
    )
    pixels = Pixels.load(tmp_path)
    assert (pixels.size, pixels.mode) == ((4, 6), "bilinear")
