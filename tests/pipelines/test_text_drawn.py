"""Children drawn by chance, through the pipeline: the distribution stays the target's own, by enumeration.

The rule itself is proved in tests/sampling. Here: whose distribution a draw came from, what is made of it by
the engine, and that no two decisions hang on the same luck, which enumeration takes for granted.
"""

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_draft import Asking, Drafter
from streamgen.pipelines.text_request import TextSampling
from streamgen.sampling.dice import Dice, KeyedDice
from tests.models import lms
from tests.pipelines.texts import RAGGED, draft_of, pipe_of
from tests.sampling.enumeration import Scripted, enumerate_outcomes

SINGLE = 1e-5  # of probabilities from logits in single precision, computed with and without a cache


def luck(dice: KeyedDice) -> tuple[bool, ...]:
    """What these dice show, thrown from their beginning."""
    fresh = replace(dice)
    return tuple(fresh.coin(0.5) for _ in range(64))


def test_no_two_decisions_hang_on_the_same_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw of both drafts, and every token that is decided, of two samples of one prompt."""
    thrown: list[KeyedDice] = []
    plain = TextSampling.dice

    def recorded(sampling: TextSampling, *key: Any) -> KeyedDice:
        thrown.append(plain(sampling, *key))
        return thrown[-1]

    monkeypatch.setattr(TextSampling, "dice", recorded)
    drafts = [draft_of("llama", 3), draft_of("llama", 0)]
    with pipe_of("llama", draft=drafts, widths=(2, 2), drawn=True) as pipe:
        chunks = list(pipe.stream(RAGGED[0], temperature=0.9, seed=4, samples=2, max_tokens=10))
        accepted = pipe.counters.accepted
    assert max(len(chunk.accepted) for chunk in chunks) == 2
    draws = sum(len(chunk.tree.draws) for chunk in chunks if chunk.tree is not None)
    assert len(thrown) == draws + len(chunks) + accepted  # each step decides one token more than it accepts
    assert len({luck(dice) for dice in thrown}) == len(thrown)


@pytest.mark.parametrize("change", ["seed", "sample", "place", "purpose"])
def test_luck_hangs_on_every_part_of_its_key(change: str) -> None:
    dice = KeyedDice(seed=1, sample=2, place=3)
    other: Any = {change: "draft" if change == "purpose" else 4}
    assert luck(replace(dice, **other)) != luck(dice) == luck(replace(dice))


def test_a_draw_came_from_what_its_own_model_says_after_its_path() -> None:
    """Two drafts, ragged texts of unlike sampling, twice: the second time with tokens to catch up on."""
    stocks = [lms.stock("llama", 3), lms.stock("qwen2", 9)]
    hows = [TextSampling(0.9, seed=4), TextSampling(1.3, top_k=20, seed=5), TextSampling(0.7, top_p=0.9)]
    texts = [list(prompt) for prompt in (RAGGED[0], RAGGED[3], RAGGED[2])]
    reordered = 0
    with pipe_of("llama", draft=[draft_of("llama", 3), draft_of("qwen2", 9)], drawn=True) as pipe:
        drafter = Drafter(pipe.draft_memories, (2, 2), drawn=True)
        for _ in range(2):
            asking = [Asking(n, text, 3, how) for n, (text, how) in enumerate(zip(texts, hows, strict=True))]
            for one, proposal in zip(asking, drafter.propose(asking), strict=True):
                tree, draft = proposal.tree, proposal.draft
                assert draft is not None and max(tree.depths) == 2
                tries = Counter((draw.source, tree.parents[draw.node]) for draw in tree.draws)
                assert set(tries.values()) == {2} and {source for source, _ in tries} == {0, 1}
                reordered += tree.parents.count(0) > 1
                for source, node in tries:
                    path = [tree.tokens[step] for step in tree.path(node)[1:]]
                    logits = stocks[source](torch.tensor([[*one.tokens, *path]]), use_cache=False).logits
                    truth = one.sampling.chances(logits[0, -1])
                    torch.testing.assert_close(draft(source, node), truth, atol=SINGLE, rtol=0)
            for number, text in enumerate(texts):
                text += RAGGED[2][number : number + 2]
        drafter.close()
    assert reordered > 3  # the models' own numbers of these nodes are others


def small(seed: int) -> Any:
    """A model of one layer that knows two tokens."""
    return lms.stock("llama", seed, vocab_size=2, num_hidden_layers=1)


@pytest.mark.parametrize(("drafts", "widths"), [(1, (2, 1)), (2, (1, 1)), (2, (2,))])
def test_a_step_with_drawn_children_keeps_the_distribution_of_what_follows(
    drafts: int, widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every outcome of the dice of one step of the engine, with its probability; the rest by the model."""
    model, prompt = small(0), [0, 1, 1, 0, 1]

    def chances(text: list[int]) -> Tensor:
        return TextSampling(1.0).chances(model(torch.tensor([text]), use_cache=False).logits[0, -1])

    given = [LanguageModel(small(5 + number)) for number in range(drafts)]
    with TextPipeline(
        LanguageModel(small(0)), draft=given, widths=widths, drawn=True, tokens=64, page_size=4
    ) as pipe:

        def run(dice: Dice) -> tuple[int, ...]:
            first = Scripted([1])  # for the token before the step, which is not in question
            monkeypatch.setattr(TextSampling, "dice", lambda how, _, place, *__: dice if place else first)
            stream = pipe.stream(prompt, max_tokens=4, temperature=1.0)
            assert next(stream).tokens == (1,)
            gained = next(stream).tokens
            stream.close()
            return gained

        outcomes = enumerate_outcomes(run)
    assert {len(gained) for gained in outcomes} == set(range(1, len(widths) + 2))
    for text in product(range(2), repeat=3):
        after = [float(chances([*prompt, 1, *text[:place]])[text[place]]) for place in range(3)]
        truth = after[0] * after[1] * after[2]
        told = 0.0
        for gained, chance in outcomes.items():
            if gained == text[: len(gained)]:
                for later in after[len(gained) :]:
                    chance *= later
                told += chance
        assert told == pytest.approx(truth, abs=SINGLE)
