"""What a text remembers can be parked, forked, wound back and shared without a trace in its logits."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.kv.errors import OutOfPagesError
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text_memory import Past, TextMemory
from streamgen.pipelines.text_parking import park, unpark
from tests.models import lms

W = 8
TEXT = [5, 17, 2, 33, 8, 41, 9, 3, 50, 20, 7, 7, 60, 31, 2, 19, 44, 12, 6, 28, 1, 30, 55, 4]


def memory_of(family: str, slack: int = 0, tokens: int = 200) -> TextMemory:
    model = LanguageModel(lms.stock(family).double())  # so that only a wrong key can make a difference
    return TextMemory(model, Arena(), tokens, 6, 16, "sdpa", 4, slack)


def tell(
    past: Past, tokens: Sequence[int], parents: tuple[int, ...] | None = None, keep: bool = True
) -> Tensor:
    """Logits of the tokens; they become part of the text, or leave no trace."""
    with past.memory.passing([past], [tokens], None if parents is None else [parents]) as answer:
        if keep:
            answer.commit()
    return answer.logits[0]


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
def test_texts_that_share_pages_are_parked_and_come_back_with_the_same_logits(family: str) -> None:
    with memory_of(family) as memory:
        first = memory.open()
        tell(first, TEXT[:13])
        pasts = [first, first.fork(), first.fork()]
        tell(pasts[1], [4])
        expected = [tell(past, [11, 3], keep=False) for past in pasts]
        parked = park(pasts)
        for group in memory.groups:
            assert group.pool.counters().used == 0
            group.pool.k.fill_(float("nan"))
            group.pool.v.fill_(float("nan"))
        unpark(memory, parked)
        for past, logits in zip(pasts, expected, strict=True):
            assert torch.equal(tell(past, [11, 3], keep=False), logits)
        shared = sum(len(swapped.stored) for swapped in parked)
        assert shared == sum(group.pool.counters().used for group in memory.groups)


def test_parked_texts_come_back_into_every_group_or_into_none() -> None:
    with memory_of("gemma3") as memory:
        past = memory.open()
        expected = tell(past, TEXT[:13])[-1:]
        parked = park([past])
        full = memory.groups[1].pool
        hostage = full.cache()
        hostage.append(*torch.zeros(2, len(memory.groups[1].layers), 4 * (full.pages.free - 1), 2, 16))
        before = [group.pool.counters() for group in memory.groups]
        with pytest.raises(OutOfPagesError, match="come back"):
            unpark(memory, parked)
        assert [group.pool.counters() for group in memory.groups] == before
        hostage.close()
        unpark(memory, parked)
        past.rewind(1)
        torch.testing.assert_close(tell(past, TEXT[12:13]), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("family", ["mistral", "gemma3"])
@pytest.mark.parametrize("length", [W - 1, W, W + 1, 2 * W, 2 * W + 1])
def test_fork_speculate_reject_and_rewind_is_the_same_as_never_having_speculated(
    family: str, length: int
) -> None:
    following = TEXT[length : length + 5]
    with memory_of(family, slack=6) as memory:
        past = memory.open()
        tell(past, TEXT[:length])
        expected = tell(past.fork(), following)
        tree, parents = [1, 2, 3, 4, 5, 6], (-1, 0, 0, 1, 2, 4)
        fork = past.fork()
        tell(fork, tree)  # another text goes on, and over the edge of the window
        tell(past, tree, parents, keep=False)  # speculated, all rejected
        with memory.passing([past], [tree], [parents]) as answer:  # speculated, a path accepted
            answer.commit([[0, 2, 4]])
        past.rewind(3)
        fork.close()
        assert past.length == length
        torch.testing.assert_close(tell(past, following), expected, atol=1e-12, rtol=1e-12)
        for group in memory.groups:
            group.pool.check()


def test_a_window_takes_back_one_token_without_slack_and_refuses_more_than_it_can() -> None:
    with memory_of("mistral") as memory:
        past = memory.open()
        expected = tell(past, TEXT[:20])
        past.rewind(1)
        torch.testing.assert_close(tell(past, TEXT[19:20]), expected[-1:], atol=1e-12, rtol=1e-12)
        with pytest.raises(UsageError, match=r"window of 8; fork\(\) before"):
            past.rewind(2)
        assert past.length == 20
        short = memory.open()
        tell(short, TEXT[: W - 1])
        short.rewind(W - 1)
        assert short.length == 0
        with pytest.raises(UsageError, match="cannot be rewound"):
            short.rewind(1)


def test_a_window_holds_w_keys_and_no_more_pages_than_they_need() -> None:
    with memory_of("gemma3") as memory:
        past = memory.open()
        for token in TEXT:
            tell(past, [token])
        sliding, full = (cache.tables[0] for cache in past.caches)
        assert (sliding.tokens, full.tokens) == (W, len(TEXT))
        assert len(sliding.pages) <= W // 4 + 1 and len(full.pages) == len(TEXT) // 4


def test_a_pass_that_finds_no_pages_changes_nothing() -> None:
    with memory_of("gemma3", tokens=40) as memory:
        pasts = [memory.open(), memory.open()]
        tell(pasts[0], TEXT[:16])
        tell(pasts[1], TEXT[:16])
        before = [group.pool.counters().used for group in memory.groups]
        with pytest.raises(OutOfPagesError), memory.passing(pasts, [TEXT[:9], TEXT[:9]]):
            pass
        assert [group.pool.counters().used for group in memory.groups] == before
        assert [past.length for past in pasts] == [16, 16]


def test_a_prefix_is_adopted_as_far_as_every_group_remembers_it() -> None:
    with memory_of("llama") as memory:
        past = memory.open()
        expected = tell(past, TEXT)[-2:]
        memory.publish(past, TEXT)
        past.close()
        other = memory.open()
        assert memory.adopt(other, TEXT) == len(TEXT) - 1
        other.rewind(1)
        torch.testing.assert_close(tell(other, TEXT[-2:]), expected, atol=1e-12, rtol=1e-12)
        memory.forget_prefixes()
        assert memory.adopt(memory.open(), TEXT) == 0
    with memory_of("gemma3") as memory:
        past = memory.open()
        tell(past, TEXT[:6])
        memory.publish(past, TEXT)
        tell(past, TEXT[6:20])
        memory.publish(past, TEXT)  # the window has let go of the beginning: nothing more is named
        assert memory.adopt(memory.open(), TEXT) == 4
