"""HERMES as its authors released it, and with the paper's blend: kept tokens, keys, values, scores, answers.

Shapes: L layers, n tokens of a layer, H kv heads, D head dim.
"""

from typing import Any

import numpy as np
import pytest
import torch

from streamgen.kv.hierarchical import depth
from streamgen.models.vlm_families import LlavaVision
from streamgen.pipelines.videoqa_answer import answer
from streamgen.pipelines.videoqa_keep import HermesKeeper
from streamgen.pipelines.videoqa_stream import LayeredStream
from tests.golden.fixtures import Golden, files, named
from tests.golden.hermes_model import encode, guide, memory, model, recording, stream, tokenizer, video

K_V, SCORE, LOGITS = 1e-4, 2e-5, 5e-5  # the tolerances that the files state in words
RUNS = files("hermes")


class Ledger:
    """Which token each slot of each layer holds, kept beside the stream by the rules of the recording."""

    def __init__(self, layers: int, prompt: int) -> None:
        self.ids = [np.arange(prompt) for _ in range(layers)]
        self.evictions = 0

    def arrive(self, first: int, count: int) -> None:
        self.ids = [np.concatenate([ids, first + np.arange(count)]) for ids in self.ids]

    def evict(self, keep: list[list[int]], summaries: tuple[int, ...]) -> None:
        self.evictions += 1
        self.ids = [ids[np.asarray(kept)] for ids, kept in zip(self.ids, keep, strict=True)]
        for layer in summaries:
            self.ids[layer] = np.append(self.ids[layer], -self.evictions)


def test_the_recordings_are_there() -> None:
    assert [path.stem for path in RUNS] == ["golden", "golden_edge", "golden_paper_omega"]


@pytest.mark.parametrize("path", RUNS, ids=named)
def test_a_recorded_stream_is_remembered_and_answered_the_same(path: Any) -> None:
    recorded = recording(path)
    questions: list[dict[str, Any]] = []
    with stream(recorded.facts) as made:
        keeper = HermesKeeper(memory(recorded.facts))
        ledger = Ledger(made.vlm.layers, made.prompt)
        for step in recorded.facts["steps"]:
            if step["op"] == "chunk":
                watch(recorded, made, keeper, ledger, step, questions)
            elif step["op"] == "question":
                ask(recorded, made, step)
                questions.append(step)
            if "state" in step:
                assert made.lengths == tuple(step["state"]["lens"])
                for layer, state in enumerate(step["state"]["layers"]):
                    assert made.cache.tables[layer].positions.tolist() == state["positions"]
                    assert ledger.ids[layer].tolist() == state["token_ids"]
                    assert_sums(made, layer, state)
                assert_keys(
                    recorded, made, "init" if step["op"] == "init_prompt" else f"chunk{step['index']}"
                )


def watch(
    recorded: Golden,
    made: LayeredStream,
    keeper: HermesKeeper,
    ledger: Ledger,
    step: dict[str, Any],
    questions: list[dict[str, Any]],
) -> None:
    vision = model()[1]
    assert isinstance(vision, LlavaVision)
    first, last = step["frames"]
    piece = vision.piece(video()["video_features"][first:last])
    assert made.starts == step["start_positions_per_layer"]
    made.feed(piece)
    ledger.arrive(step["first_token_id"], step["n_tokens"])
    assert made.lengths == tuple(step["lens_before_evict"])
    assert_fresh(recorded, made, step)
    words = guidance(step, questions)
    assert_scores(recorded, made, words, step["index"])
    gone = keeper.settle(made, piece, list(range(first, last)), lambda: words)
    assert (gone is not None) == step["evicted"]
    if gone is not None:
        assert gone.kept.renumbered == step["compacted"]
        ledger.evict(step["keep_per_layer"], gone.kept.summaries)


def guidance(step: dict[str, Any], questions: list[dict[str, Any]]) -> dict[Any, torch.Tensor]:
    """The guidance of this moment; its words are those of the recording."""
    last = questions[-1] if questions else None
    asked = last["conv_history_after"][-1][0] if last else None
    words = guide(asked, last["answer_text"] if last else "")
    vlm = model()[0]
    for kind, name in (("shallow", "local_ids"), ("middle", "mixed_ids"), ("deep", "global_ids")):
        assert torch.equal(words[kind], vlm.words(step[name]).embeds)
    return words


def assert_scores(recorded: Golden, made: LayeredStream, words: dict[Any, torch.Tensor], index: int) -> None:
    layers = made.vlm.layers
    looks = made.guided([words[depth(layer, layers)] for layer in range(layers)])
    scores = memory(recorded.facts).scores(looks)
    for layer in range(layers):
        close(looks[layer], recorded.tensors[f"chunk{index}.visual_attn.{layer}"], SCORE)
        close(scores[layer], recorded.tensors[f"chunk{index}.score.{layer}"], SCORE)


def assert_fresh(recorded: Golden, made: LayeredStream, step: dict[str, Any]) -> None:
    for layer in (0, made.vlm.layers - 1):
        k, v = made.cache.read(layer, slice(-step["n_tokens"], None))
        close(k.transpose(0, 1), recorded.tensors[f"chunk{step['index']}.preevict.k.{layer}"], K_V)
        close(v.transpose(0, 1), recorded.tensors[f"chunk{step['index']}.preevict.v.{layer}"], K_V)


def assert_keys(recorded: Golden, made: LayeredStream, name: str) -> None:
    for layer in range(made.vlm.layers):
        if f"{name}.k.{layer}" in recorded.tensors:
            k, v = made.cache.read(layer)
            close(k.transpose(0, 1), recorded.tensors[f"{name}.k.{layer}"], K_V)
            close(v.transpose(0, 1), recorded.tensors[f"{name}.v.{layer}"], K_V)


def assert_sums(made: LayeredStream, layer: int, state: dict[str, Any]) -> None:
    """Checksums where no tensors were recorded: a sum of n numbers that may each be off by the tolerance."""
    k, v = (tensor.double() for tensor in made.cache.read(layer))
    for name, value in (("k_abs", k.abs().sum()), ("v_abs", v.abs().sum())):
        assert float(value) == pytest.approx(state[name], rel=1e-6)


def ask(recorded: Golden, made: LayeredStream, step: dict[str, Any]) -> None:
    assert encode(step["prompt"]) == step["prompt_ids"]
    assert made.starts == step["start_positions_per_layer"]
    logits = recorded.tensors[step["logits_key"].split()[0]]
    said = []
    fork = made.fork()
    with fork.cache:
        most, penalty = step["max_new_tokens"], step["repetition_penalty"]
        for number, (token, raw) in enumerate(answer(fork, step["prompt_ids"], most, penalty, {1})):
            said.append(token)
            close(raw, logits[number], LOGITS)
    assert said == step["answer_ids"]
    assert tokenizer().decode(said, skip_special_tokens=True) == step["answer_text"]
    assert made.lengths == tuple(step["lens_after"])


def close(actual: torch.Tensor, expected: torch.Tensor, atol: float) -> None:
    torch.testing.assert_close(actual.float(), expected, atol=atol, rtol=0)


def test_the_eyes_see_what_was_recorded() -> None:
    vision = model()[1]
    assert isinstance(vision, LlavaVision)
    recorded = video()
    close(vision.features(recorded["pixel_values"]), recorded["video_features"], 1e-5)
