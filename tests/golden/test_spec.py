"""Token trees against numbers recorded by decoding each path alone; acceptance probabilities."""

import json

import pytest
import torch
from safetensors.torch import load_file

from streamgen.kv.arena import Arena
from streamgen.models.lm import load_language_model
from streamgen.pipelines.text_memory import TextMemory
from streamgen.sampling.dice import Dice
from streamgen.sampling.tree import TokenTree
from streamgen.sampling.tree_verify import acceptance, residual, verify_drawn, verify_greedy
from tests.golden.fixtures import ROOT
from tests.sampling.enumeration import enumerate_outcomes

MSS = json.loads((ROOT / "spec" / "mss.json").read_text())


def recorded_tree() -> tuple[TokenTree, dict[str, torch.Tensor]]:
    """The recorded nodes under the last token of the prefix, which is the root."""
    recorded = load_file(ROOT / "spec" / "tree.safetensors")
    tokens = [int(recorded["prefix"][-1]), *recorded["tree_tokens"].tolist()]
    parents = [-1, *(parent + 1 for parent in recorded["parents"].tolist())]
    return TokenTree(tuple(tokens), tuple(parents)), recorded


def test_the_mask_and_the_depths_are_the_recorded_ones() -> None:
    tree, recorded = recorded_tree()
    assert torch.equal(tree.ancestors()[1:, 1:], recorded["ancestor_mask"])
    assert [depth - 1 for depth in tree.depths[1:]] == recorded["depth"].tolist()


def test_greedy_verification_accepts_the_recorded_nodes() -> None:
    tree, recorded = recorded_tree()
    best = torch.cat([recorded["prefix_logits"][None], recorded["node_logits"]]).argmax(-1).tolist()
    verdict = verify_greedy(tree, best)
    assert [node - 1 for node in verdict.nodes[1:]] == recorded["accepted_nodes"].tolist()
    gained = verdict.tokens(tree)
    assert gained == recorded["greedy_continuation"][: len(gained)].tolist()


@pytest.mark.parametrize("number", range(len(MSS["cases"])))
def test_acceptance_probabilities_and_the_residual_are_the_recorded_ones(number: int) -> None:
    case = MSS["cases"][number]
    p, left = torch.tensor(case["p"], dtype=torch.float64), 1.0
    for source, step in enumerate(case["trace"]):
        q = torch.tensor(case["q"][source], dtype=torch.float64)
        assert float(p[step["token"]]) == pytest.approx(step["p"], abs=1e-12)
        assert float(q[step["token"]]) == pytest.approx(step["q"], abs=1e-12)
        accept = acceptance(p, q, step["token"])
        assert accept == pytest.approx(step["accept"], abs=1e-12)
        left *= 1 - accept
        rest = residual(p, q)
        p = p if accept == 1 or rest is None else rest
    assert left == pytest.approx(case["prob_all_rejected"], abs=1e-12)
    torch.testing.assert_close(p, torch.tensor(case["residual"], dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("number", range(len(MSS["cases"])))
def test_the_token_after_the_recorded_children_has_the_recorded_distribution(number: int) -> None:
    case = MSS["cases"][number]
    p, *qs = (torch.tensor(row, dtype=torch.float64) for row in (case["p"], *case["q"]))
    tree = TokenTree.root(0)
    for source, token in enumerate(case["children"]):
        tree = tree.grow(0, [token], source)

    def run(dice: Dice) -> tuple[int, ...]:
        verdict = verify_drawn(tree, lambda node: p, lambda source, node: qs[source], lambda depth: dice)
        return (verdict.tokens(tree)[0],)

    out = enumerate_outcomes(run)
    recorded = dict(enumerate(case["out_dist"]))
    assert all(
        out.get((token,), 0.0) == pytest.approx(chance, abs=1e-12) for token, chance in recorded.items()
    )


@pytest.mark.parametrize("attention", ["reference", "sdpa", "segments", "cascade", "flex", "auto"])
def test_one_pass_over_the_tree_says_what_each_path_said_alone_and_keeps_the_recorded_keys(
    attention: str,
) -> None:
    tree, recorded = recorded_tree()
    model = load_language_model(ROOT / "spec", torch.float32)
    prefix = recorded["prefix"].tolist()
    with TextMemory(model, Arena(), 64, 1, 32, attention, page_size=4) as memory:
        past = memory.open()
        with memory.passing([past], [prefix[:-1]]) as answer:
            answer.commit()
        with memory.passing([past], [tree.tokens], [tree.parents]) as answer:
            nodes = [0, *(node + 1 for node in recorded["accepted_nodes"].tolist())]
            answer.commit([nodes])
        truth = torch.cat([recorded["prefix_logits"][None], recorded["node_logits"]])
        torch.testing.assert_close(answer.logits[0], truth, atol=1e-4, rtol=0)
        [cache] = past.caches
        for layer in range(model.layers):
            for kept, name in zip(cache.read(layer), ("committed_keys", "committed_values"), strict=True):
                expected = recorded[name][layer].transpose(0, 1)
                torch.testing.assert_close(kept, expected, atol=1e-4, rtol=0)
