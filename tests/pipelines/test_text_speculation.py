"""Speculation changes how fast a text comes, never the text."""

import random
from typing import Any

import pytest
import torch

from streamgen.kv.arena import Arena
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text import TextPipeline
from streamgen.pipelines.text_memory import TextMemory
from streamgen.sampling.tree import TokenTree, padded
from streamgen.sampling.tree_verify import verify_greedy
from tests.models import lms
from tests.pipelines.texts import RAGGED, collected, draft_of, generated, pipe_of


@pytest.mark.parametrize(
    ("family", "attention", "widths"),
    [
        ("llama", "reference", (3, 2, 1)),
        ("llama", "segments", (1, 1, 1)),
        ("mistral", "sdpa", (3, 2, 1)),
        ("mistral", "segments", (3, 2, 1)),
        ("qwen2_sliding", "sdpa", (1, 1, 1)),
        ("gemma3", "reference", (2, 2)),
        ("gemma3", "sdpa", (4,)),
    ],
)
def test_greedy_text_with_a_stranger_as_draft_is_what_generate_writes(
    family: str, attention: str, widths: tuple[int, ...]
) -> None:
    expected = [generated(lms.stock(family), prompt, 12)[0] for prompt in RAGGED]
    with pipe_of(family, draft=draft_of(), widths=widths, attention=attention) as pipe:
        texts = collected(pipe.stream(RAGGED, max_tokens=12))
    assert [texts[number, 0] for number in range(len(RAGGED))] == expected


def test_gemma2_is_exact_too_where_the_kernel_caps_scores() -> None:
    expected = generated(lms.stock("gemma2"), RAGGED[0], 10)[0]
    with pipe_of("gemma2", draft=draft_of("gemma2"), attention="auto") as pipe:
        assert collected(pipe.stream(RAGGED[0], max_tokens=10)) == {(0, 0): expected}


def test_a_draft_that_agrees_is_accepted_throughout_and_saves_passes() -> None:
    expected = [generated(lms.stock("mistral"), prompt, 16)[0] for prompt in RAGGED]
    with pipe_of("mistral", draft=draft_of("mistral", 0), widths=(1, 1, 1)) as pipe:
        texts = collected(pipe.stream(RAGGED, max_tokens=16))
        assert [texts[number, 0] for number in range(len(RAGGED))] == expected
        assert pipe.counters.acceptance == 1.0
        assert pipe.counters.passes < 16


def test_a_chunk_tells_what_was_proposed_and_which_of_it_was_written() -> None:
    with pipe_of("llama", draft=draft_of("llama", 5), widths=(3, 2, 1)) as pipe:
        chunks = list(pipe.stream(RAGGED[0], max_tokens=24))
        assert any(chunk.accepted for chunk in chunks[1:]) and chunks[0].tree is None
        for chunk in chunks[1:]:
            assert chunk.tree is not None
            path = [chunk.tree.tokens[node] for node in chunk.accepted]
            assert chunk.tokens[: len(path)] == tuple(path)
            assert len(path) == len(chunk.tokens) - 1 or chunk.finished
        assert sum(len(chunk.accepted) for chunk in chunks[:-1]) <= pipe.counters.accepted


@pytest.mark.parametrize("wish", [{}, {"temperature": 0.9, "seed": 4}])
def test_a_stop_token_ends_a_text_wherever_it_stands_in_an_accepted_path(wish: dict[str, Any]) -> None:
    """The draft is the model itself, so that every step after the first token accepts three and adds one."""
    with pipe_of("llama", draft=draft_of("llama", 0), widths=(1, 1, 1)) as pipe:
        with pipe_of("llama") as plain:
            whole = collected(plain.stream(RAGGED[0], max_tokens=12, **wish))[0, 0]
        new = [number for number in range(1, 9) if whole.index(whole[number]) == number]
        assert {(number - 1) % 4 for number in new} == {0, 1, 2, 3}  # first, in the middle, last of a step
        for end in new:
            pipe.model.model.generation_config.eos_token_id = [60, whole[end]]
            chunks = list(pipe.stream(RAGGED[0], max_tokens=12, **wish))
            assert [token for chunk in chunks for token in chunk.tokens] == whole[: end + 1]
            assert [chunk.finished for chunk in chunks] == [""] * (len(chunks) - 1) + ["stop"]
            assert all(len(chunk.accepted) <= len(chunk.tokens) for chunk in chunks)


def test_two_drafts_are_merged_and_the_better_one_counts() -> None:
    expected = [generated(lms.stock("llama"), prompt, 12)[0] for prompt in RAGGED]
    drafts = [draft_of(), LanguageModel(lms.stock("llama"))]
    with pipe_of("llama", draft=drafts, widths=(2, 1)) as pipe:
        texts = collected(pipe.stream(RAGGED, max_tokens=12))
        assert pipe.counters.acceptance == 1.0
    assert [texts[number, 0] for number in range(len(RAGGED))] == expected


@pytest.mark.parametrize("family", ["qwen3", "mistral"])
def test_sampled_text_is_the_same_token_by_token_with_chosen_children(family: str) -> None:
    wish: dict[str, Any] = {"temperature": 0.9, "top_p": 0.9, "seed": 4, "samples": 2, "max_tokens": 12}
    with pipe_of(family) as pipe:
        plain = collected(pipe.stream(RAGGED, **wish))
    with pipe_of(family, draft=[draft_of(), draft_of(family, 0)], widths=(2, 2)) as pipe:
        assert collected(pipe.stream(RAGGED, **wish)) == plain
        assert pipe.counters.accepted > 0


def test_drawn_children_of_an_equal_draft_are_all_accepted_and_texts_do_not_hang_on_neighbours() -> None:
    wish: dict[str, Any] = {"temperature": 0.9, "seed": 4, "max_tokens": 10}
    with pipe_of("qwen3", draft=draft_of("qwen3", 0), widths=(2, 1), drawn=True) as pipe:
        together = collected(pipe.stream(RAGGED, **wish))
        assert pipe.counters.acceptance == 1.0
        assert collected(pipe.stream(RAGGED[2], **wish))[0, 0] == together[2, 0]


def test_drawn_children_leave_the_distribution_of_the_second_token() -> None:
    """Over many seeds, with a draft that disagrees: the shares of plain sampling, by exact probabilities."""
    model = lms.stock("llama")
    model.lm_head.weight[5:] = -100 * model.lm_head.weight[:1].sign()  # five tokens are possible
    prompt = list(RAGGED[3])

    def chances(text: list[int]) -> torch.Tensor:
        logits = model(torch.tensor([text]), use_cache=False).logits[0, -1].double()
        return logits.softmax(-1)

    target = sum(p * chances([*prompt, token]) for token, p in enumerate(chances(prompt)) if p > 1e-6)
    counts, rounds = torch.zeros(lms.VOCABULARY, dtype=torch.float64), 20 * 16
    with TextPipeline(
        LanguageModel(model), draft=draft_of("llama", 3), widths=(2,), drawn=True, tokens=512, page_size=4
    ) as pipe:
        for seed in range(20):
            wish: dict[str, Any] = {"max_tokens": 2, "temperature": 1.0, "seed": seed, "samples": 16}
            for text in collected(pipe.stream(prompt, **wish)).values():
                counts[text[1]] += 1
    assert (counts / rounds - target).abs().max() < 0.1


def random_tree(dice: random.Random, truth: list[int], text: list[int]) -> TokenTree:
    """A tree of any shape behind a text, some of whose nodes are right."""
    tree = TokenTree.root(text[-1])
    for _ in range(dice.randint(0, 8)):
        node = dice.randrange(len(tree))
        right = truth[len(text) + tree.depths[node]]
        tree = tree.grow(node, [right if dice.random() < 0.7 else dice.randrange(lms.VOCABULARY)])
    return tree


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
@pytest.mark.parametrize("seed", range(3))
def test_random_trees_give_the_tokens_of_plain_greedy_decoding(family: str, seed: int) -> None:
    """Trees of any shape; windows of 8 and pages of 4 end inside of them."""
    dice, stock = random.Random(seed), lms.stock(family)
    prompt = list(RAGGED[seed])
    truth = generated(stock, prompt, 30)[0]
    with TextMemory(LanguageModel(lms.stock(family)), Arena(), 256, 1, 32, "sdpa", 4) as memory:
        past = memory.open()
        with memory.passing([past], [prompt]) as answer:
            answer.commit()
        text = [int(answer.logits[0, -1].argmax())]
        while len(text) < 20:
            tree = random_tree(dice, truth, text)
            with memory.passing([past], [tree.tokens], [tree.parents]) as answer:
                verdict = verify_greedy(tree, answer.logits[0].argmax(-1).tolist())
                answer.commit([list(verdict.nodes)])
            text += verdict.tokens(tree)
            assert text == truth[: len(text)]


@pytest.mark.parametrize(
    ("family", "attention"),
    [
        ("llama_mqa", "reference"),
        ("gemma3", "segments"),
        ("llama", "cascade"),
        ("mistral", "cascade"),
        ("gemma3", "cascade"),
        ("gemma2", "auto"),
        ("qwen2", "auto"),
    ],
)
def test_random_trees_of_ragged_texts_that_share_a_beginning_do_too(family: str, attention: str) -> None:
    """Three forks of one prompt around another one: they part as their trees are accepted unequally far."""
    dice, model = random.Random(1), LanguageModel(lms.stock(family))
    prompts = [RAGGED[0], RAGGED[2], RAGGED[0], RAGGED[0]]
    truths = [generated(lms.stock(family), prompt, 30)[0] for prompt in prompts]
    with TextMemory(model, Arena(), 256, 4, 32, attention, 4, slack=6) as memory:  # kept, not seen
        pasts = [memory.open(), memory.open()]
        for past, prompt in zip(pasts, prompts[:2], strict=True):
            with memory.passing([past], [prompt]) as answer:
                answer.commit()
        pasts += [pasts[0].fork(), pasts[0].fork()]
        texts = [truth[:1] for truth in truths]
        while min(map(len, texts)) < 14:
            trees = [random_tree(dice, *row) for row in zip(truths, texts, strict=True)]
            rows = [padded(tree, max(map(len, trees))) for tree in trees]
            with memory.passing(pasts, [ids for ids, _ in rows], [parents for _, parents in rows]) as answer:
                verdicts = [verify_greedy(*row) for row in zip(trees, answer.best, strict=True)]
                answer.commit([verdict.nodes for verdict in verdicts])
            for text, truth, tree, verdict in zip(texts, truths, trees, verdicts, strict=True):
                text += verdict.tokens(tree)
                assert text == truth[: len(text)]
        assert len({past.length for past in pasts}) > 2


def test_a_draft_without_room_proposes_nothing_and_the_text_is_the_same() -> None:
    expected = [generated(lms.stock("llama"), prompt, 12)[0] for prompt in RAGGED]
    with pipe_of("llama", draft=draft_of(), widths=(2, 1)) as pipe:
        pool = pipe.draft_memories[0].groups[0].pool
        hostage = pool.cache()
        hostage.append(*torch.zeros(2, 3, 4 * (pool.pages.free - 3), 2, 8))
        texts = collected(pipe.stream(RAGGED, max_tokens=12))
    assert [texts[number, 0] for number in range(len(RAGGED))] == expected


def test_texts_that_end_leave_no_page_with_the_draft() -> None:
    """Not even while another text of their stream goes on: the draft holds as much as for that one alone."""
    with pipe_of("llama", draft=draft_of(), widths=(2, 1)) as pipe:
        pool, written, alone = pipe.draft_memories[0].groups[0].pool, 0, {}
        for chunk in pipe.stream(RAGGED[0], max_tokens=24):
            alone[written := written + len(chunk.tokens)] = pool.counters().used
    with pipe_of("llama", draft=draft_of(), widths=(2, 1)) as pipe:
        pool, ended, after, lengths = pipe.draft_memories[0].groups[0].pool, set(), {}, [0] * len(RAGGED)
        for chunk in pipe.stream(RAGGED, max_tokens=[24, 3, 7, 9]):
            lengths[chunk.prompt] += len(chunk.tokens)
            ended |= {chunk.prompt} if chunk.finished else set()
            if ended == {1, 2, 3}:
                after[lengths[0]] = pool.counters().used
        assert len(after) > 3 and after.items() <= alone.items()
        for memory in (pipe.memory, *pipe.draft_memories):
            for group in memory.groups:
                assert group.pool.counters().used == 0
                group.pool.check()
