"""CausalWan: the stock transformer with positions from any frame and a memory that somebody else owns."""

from typing import Any

import pytest
import torch
from peft import LoraConfig
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from streamgen.models.wan import CausalWan, TextKV
from tests.models import tiny

H, W = 4, 6


class Remembering:
    """An attention site that keeps everything in one tensor."""

    def __init__(self) -> None:
        self.past: tuple[Tensor, Tensor] | None = None
        self.staged: tuple[Tensor, Tensor] | None = None

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.store(k, v)
        keys, values = (
            (torch.cat(pair, dim=1) for pair in zip(self.past, (k, v), strict=True)) if self.past else (k, v)
        )
        q, keys, values = (x.transpose(1, 2) for x in (q, keys, values))
        return functional.scaled_dot_product_attention(q, keys, values).transpose(1, 2)

    def store(self, k: Tensor, v: Tensor) -> None:
        self.staged = (k, v)

    def commit(self) -> None:
        self.past = self.staged


def sites(model: CausalWan) -> list[Remembering]:
    return [Remembering() for _ in range(model.layers)]


def prompt(rows: int = 5, batch: int = 1, seed: int = 3) -> Tensor:
    return torch.randn(batch, rows, tiny.TEXT_DIM, generator=torch.Generator().manual_seed(seed))


def latents(frames: int = 2, batch: int = 1, seed: int = 4) -> Tensor:
    return torch.randn(batch, tiny.LATENTS, frames, H, W, generator=torch.Generator().manual_seed(seed))


def forward(model: CausalWan, x: Tensor, text: TextKV, t: float = 500.0, start: int = 0) -> Tensor:
    rope = model.rope(x.shape[2], H, W, start=start)
    return model(x, torch.full((len(x),), t), text, rope, sites(model))


def test_one_chunk_is_the_stock_model() -> None:
    expected = tiny.transformer()(latents(3), torch.tensor([500.0]), prompt()).sample
    model = CausalWan(tiny.transformer())
    torch.testing.assert_close(
        forward(model, latents(3), model.text(prompt())), expected, atol=1e-5, rtol=1e-5
    )


def test_times_of_single_frames_are_the_stock_models_times_of_tokens() -> None:
    t = torch.tensor([[700.0, 20.0, 0.0]])
    tokens = t.repeat_interleave(H * W // 4, dim=1)
    expected = tiny.transformer()(latents(3), tokens, prompt()).sample
    model = CausalWan(tiny.transformer())
    out = model(latents(3), t, model.text(prompt()), model.rope(3, H, W), sites(model))
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_positions_are_those_of_the_stock_table_to_the_last_bit() -> None:
    model = CausalWan(tiny.transformer())
    frames = 1024
    cos, sin = model.transformer.rope(torch.empty(1, tiny.LATENTS, frames, H, W))
    tokens = H * W // 4
    for start, count in ((0, frames), (1, 3), (500, 7), (1023, 1)):
        rope = model.rope(count, H, W, start=start)
        rows = slice(start * tokens, (start + count) * tokens)
        assert torch.equal(rope.cos, cos[:, rows, :, 0::2])
        assert torch.equal(rope.sin, sin[:, rows, :, 1::2])


def test_positions_have_no_last_frame_and_turn_keys_by_any_number_of_frames() -> None:
    model = CausalWan(tiny.transformer())
    k = torch.randn(H * W // 4, model.heads, model.head_dim)
    for start, frames in ((0, 3), (1030, 5), (10**6, 17)):
        here, there = model.rope(1, H, W, start=start), model.rope(1, H, W, start=start + frames)
        moved = model.rotate(here.turn(k[None])[0], frames)
        torch.testing.assert_close(moved, there.turn(k[None])[0], atol=2e-6, rtol=1e-5)


def test_the_clean_pass_remembers_what_a_whole_forward_would() -> None:
    model = CausalWan(tiny.transformer(num_layers=3))
    text, rope, t = model.text(prompt()), model.rope(2, H, W, start=9), torch.tensor([0.0])
    whole, clean = sites(model), sites(model)
    model(latents(), t, text, rope, whole)
    model.remember(latents(), t, text, rope, clean)
    for expected, site in zip(whole, clean, strict=True):
        assert expected.staged is not None and site.staged is not None
        assert all(torch.equal(a, b) for a, b in zip(expected.staged, site.staged, strict=True))


def test_the_clean_pass_leaves_out_what_nobody_reads() -> None:
    model = CausalWan(tiny.transformer())
    text, rope = model.text(prompt()), model.rope(2, H, W)
    last, ran = model.transformer.blocks[-1], list[str]()
    unread = {"query": last.attn1.to_q, "out": last.attn1.to_out[0], "text": last.attn2.to_q, "ffn": last.ffn}
    for name, module in (unread | {"head": model.transformer.proj_out, "key": last.attn1.to_k}).items():
        module.register_forward_hook(lambda *_, name=name: ran.append(name))
    model.remember(latents(), torch.tensor([0.0]), text, rope, sites(model))
    assert ran == ["key"]


def test_a_batch_is_its_streams_one_by_one() -> None:
    model = CausalWan(tiny.transformer())
    together = forward(model, latents(batch=2), model.text(prompt(batch=2)))
    for row in range(2):
        alone = forward(model, latents(batch=2)[row : row + 1], model.text(prompt(batch=2)[row : row + 1]))
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=1e-5)


def test_one_prompt_serves_a_whole_batch() -> None:
    model = CausalWan(tiny.transformer())
    shared = forward(model, latents(batch=2), model.text(prompt()))
    each = forward(model, latents(batch=2), model.text(prompt().repeat(2, 1, 1)))
    torch.testing.assert_close(shared, each, atol=1e-6, rtol=1e-6)


def test_bf16_weights_give_nearly_the_same_flow() -> None:
    exact = CausalWan(tiny.transformer())
    model = CausalWan(tiny.transformer().to(torch.bfloat16))
    out = forward(model, latents(), model.text(prompt()))
    assert out.dtype == torch.bfloat16
    assert (out - forward(exact, latents(), exact.text(prompt()))).abs().mean() < 0.03


def test_no_float64_is_needed_on_the_device() -> None:
    model = CausalWan(tiny.transformer())
    text, rope, t = model.text(prompt()), model.rope(2, H, W), torch.tensor([833.0])
    model(latents(), t, text, rope, sites(model))  # positions and times are computed on the host, once
    with NoDoubles():
        model(latents(), t, text, rope, sites(model))
        model.remember(latents(), t, text, rope, sites(model))


class NoDoubles(TorchDispatchMode):
    """Like a device without double precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in [out] if isinstance(out, Tensor) else []:
            assert tensor.dtype not in (torch.float64, torch.complex64, torch.complex128), func
        return out


def test_a_lora_counts_like_weights_that_were_merged() -> None:
    added = tiny.transformer()
    added.add_adapter(LoraConfig(r=2, lora_alpha=2, target_modules=["to_q", "to_k", "to_v", "to_out.0"]))
    matrices = {n: p for n, p in added.named_parameters() if ".lora_" in n}
    for number, parameter in enumerate(matrices.values()):
        parameter.data.copy_(tiny.seeded(nn.Linear(*parameter.shape[::-1]), number).weight)
    merged = tiny.transformer()
    for name, module in added.named_modules():
        if hasattr(module, "lora_A"):
            update = module.lora_B["default"].weight @ module.lora_A["default"].weight
            merged.get_submodule(name).weight.data += update
    a, b, plain = CausalWan(added), CausalWan(merged), CausalWan(tiny.transformer())
    out = forward(a, latents(), a.text(prompt()))
    torch.testing.assert_close(out, forward(b, latents(), b.text(prompt())), atol=1e-5, rtol=1e-5)
    assert (out - forward(plain, latents(), plain.text(prompt()))).abs().max() > 0.01


def test_dynamically_quantised_linears_stream() -> None:
    exact = CausalWan(tiny.transformer())
    quantise = torch.ao.quantization.quantize_dynamic
    rounded = CausalWan(quantise(tiny.transformer(), {nn.Linear}, dtype=torch.qint8))
    out = forward(rounded, latents(), rounded.text(prompt()))
    error = (out - forward(exact, latents(), exact.text(prompt()))).abs().mean()
    assert 0 < error < 0.1


class EightBit(nn.Module):
    """A Linear with int8 weights and one scale a row, the way quantisers replace modules."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.scale = linear.weight.abs().amax(dim=1, keepdim=True) / 127
        self.weight = (linear.weight / self.scale).round().to(torch.int8)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight * self.scale, self.bias)


def test_quantised_linears_take_the_place_of_the_stock_ones() -> None:
    exact, rounded = CausalWan(tiny.transformer()), CausalWan(tiny.transformer())
    for block in rounded.transformer.blocks:
        for attention in (block.attn1, block.attn2):
            for name in ("to_q", "to_k", "to_v"):
                setattr(attention, name, EightBit(getattr(attention, name)))
        block.ffn.net[2] = EightBit(block.ffn.net[2])
    out = forward(rounded, latents(), rounded.text(prompt()))
    error = (out - forward(exact, latents(), exact.text(prompt()))).abs().max()
    assert 0 < error < 0.1


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"patch_size": (2, 2, 2)}, "patch_size begins with 1"),
        ({"image_dim": 8, "added_kv_proj_dim": 24}, "first latent frame"),
    ],
)
def test_wans_that_cannot_stream_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CausalWan(tiny.transformer(**config))


def test_input_that_does_not_fit_is_refused() -> None:
    model = CausalWan(tiny.transformer())
    text, t = model.text(prompt()), torch.tensor([0.0])
    with pytest.raises(ValueError, match="has 3 channels and this transformer takes 4"):
        model(torch.zeros(1, 3, 1, H, W), t, text, model.rope(1, H, W), sites(model))
    with pytest.raises(ValueError, match="cannot be cut into patches of 2x2"):
        model.rope(1, 5, 6)


def test_an_adapted_transformer_says_who_has_to_be_called() -> None:
    model = CausalWan(tiny.transformer())
    with pytest.raises(TypeError, match="call the CausalWan"):
        model.transformer(latents(), torch.tensor([0.0]), prompt())
