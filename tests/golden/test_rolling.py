"""Rolling buffers against numbers recorded from mistral-inference: W keys, the current one included."""

import json
from collections.abc import Sequence

import pytest
import torch
from einops import rearrange
from safetensors.torch import load_file
from torch import Tensor

from streamgen.kv.arena import Arena
from streamgen.models.lm import LanguageModel, load_language_model
from streamgen.pipelines.text_memory import Past, TextMemory
from tests.golden.fixtures import ROOT

FOLDER = ROOT / "rolling"
META = json.loads((FOLDER / "meta.json").read_text())
W = META["window"]
GOLDEN = load_file(FOLDER / "golden.safetensors")
IDS = GOLDEN["input_ids"].tolist()
KERNELS = ("reference", "sdpa", "segments", "cascade", "flex", "auto")
CLOSE = {"atol": 1e-4, "rtol": 0}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_language_model(FOLDER, torch.float32)


def memory_of(model: LanguageModel, attention: str = "sdpa", page_size: int = 4) -> TextMemory:
    return TextMemory(model, Arena(), 64, 1, 40, attention, page_size)


def told(memory: TextMemory, past: Past, ids: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Logits of a text that is fed in pieces of these sizes, the last one repeated."""
    out, start = [], 0
    while start < len(ids):
        size = sizes[min(len(out), len(sizes) - 1)]
        with memory.passing([past], [ids[start : start + size]]) as answer:
            answer.commit()
        out.append(answer.logits[0])
        start += size
    return torch.cat(out)


@pytest.mark.parametrize("attention", KERNELS)
@pytest.mark.parametrize("chunk", [*META["chunk_sizes"], 1, 40])
def test_a_prefill_in_chunks_of_any_size_says_what_was_recorded(
    model: LanguageModel, attention: str, chunk: int
) -> None:
    name = {1: "logits_step_official", 40: "logits_full_official"}.get(chunk, f"logits_chunk{chunk}_official")
    with memory_of(model, attention) as memory:
        torch.testing.assert_close(told(memory, memory.open(), IDS, [chunk]), GOLDEN[name], **CLOSE)


def test_transformers_says_the_same(model: LanguageModel) -> None:
    with memory_of(model) as memory:
        torch.testing.assert_close(told(memory, memory.open(), IDS, [40]), GOLDEN["logits_full_hf"], **CLOSE)
        torch.testing.assert_close(told(memory, memory.open(), IDS, [1]), GOLDEN["logits_step_hf"], **CLOSE)


def test_chunks_then_single_steps_and_a_second_text_in_the_same_pool(model: LanguageModel) -> None:
    mixed = [W] * (META["prompt_len_mixed"] // W) + [META["prompt_len_mixed"] % W, 1]
    other = GOLDEN["input_ids_b"].tolist()
    with TextMemory(model, Arena(), 200, 2, 40, "sdpa", 4) as memory:
        first, second = memory.open(), memory.open()
        torch.testing.assert_close(told(memory, first, IDS, mixed), GOLDEN["logits_mixed_official"], **CLOSE)
        torch.testing.assert_close(
            told(memory, second, other, [len(other) - 12, 1]), GOLDEN["logits_b_official"], **CLOSE
        )


def test_each_layer_may_have_its_own_window(model: LanguageModel) -> None:
    mixed = load_language_model(FOLDER, torch.float32, windows=META["per_layer_windows"])
    for chunk in (40, 5, 1):
        with memory_of(mixed) as memory:
            logits = told(memory, memory.open(), IDS, [chunk])
            torch.testing.assert_close(logits, GOLDEN["logits_per_layer_official"], **CLOSE)


def test_the_buffer_holds_the_recorded_keys_and_exactly_w_of_them(model: LanguageModel) -> None:
    """The recorded ring: slot = position mod W; rotary pairs interleaved, where here a head is halved."""
    with memory_of(model) as memory:
        past = memory.open()
        told(memory, past, IDS, [1])
        [cache] = past.caches
        assert cache.tokens == W
        order = [position % W for position in range(len(IDS) - W, len(IDS))]
        for layer in range(model.layers):
            k, v = cache.read(layer)
            interleaved = rearrange(k, "n h (half d) -> n h (d half)", half=2)
            torch.testing.assert_close(interleaved, GOLDEN["cache_k_after"][layer][order], **CLOSE)
            torch.testing.assert_close(v, GOLDEN["cache_v_after"][layer][order], **CLOSE)


@pytest.mark.parametrize("piece", [1, 5, 40])
def test_a_token_sees_as_many_keys_as_were_counted(model: LanguageModel, piece: int) -> None:
    counts = GOLDEN["decode_key_counts" if piece == 1 else "prefill_key_counts"].tolist()
    with memory_of(model) as memory:
        past, seen = memory.open(), []
        for start in range(0, len(IDS), piece):
            with memory.passing([past], [IDS[start : start + piece]]) as answer:
                [[stage]] = answer.stages
                mask = stage.mask.dense(stage.past, stage.tokens)
                whole = torch.ones(stage.tokens, stage.past + stage.tokens)
                seen += (whole if mask is None else mask).sum(1).long().tolist()
                answer.commit()
        assert seen == counts


def test_one_key_more_or_less_is_noticed(model: LanguageModel) -> None:
    for window in (W - 1, W + 1):
        wrong = load_language_model(FOLDER, torch.float32, windows=[window])
        with memory_of(wrong) as memory:
            logits = told(memory, memory.open(), IDS, [5])
        assert (logits - GOLDEN["logits_full_official"]).abs().max() > 0.05
