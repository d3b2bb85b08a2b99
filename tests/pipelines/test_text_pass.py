"""One pass over several texts: what each of them is answered, and that nothing stays staged."""

from collections.abc import Iterator

import pytest
import torch

from streamgen.kv.arena import Arena
from streamgen.kv.stage import Stage
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text_memory import Past, TextMemory
from tests.models import lms

TEXTS = [[5, 17, 2, 33], [8, 41, 9, 3], [50, 20, 7, 60]]


@pytest.fixture
def memory() -> Iterator[TextMemory]:
    with TextMemory(LanguageModel(lms.stock("gemma3").double()), Arena(), 200, 6, 16, "sdpa", 4) as memory:
        yield memory


def idle(memory: TextMemory, pasts: list[Past]) -> bool:
    return all(
        cache.opened is None and cache.tokens == 0 for past in pasts for cache in past.caches
    ) and not any(group.pool.counters().used for group in memory.groups)


def test_neighbouring_texts_are_answered_what_they_are_answered_alone(memory: TextMemory) -> None:
    pasts = [memory.open() for _ in TEXTS]
    with memory.passing(pasts, TEXTS) as answer:
        one, others = answer.of(0), answer.of(1, 2)
        assert "best" not in vars(answer), "nobody has asked for it"
        assert others.best == answer.logits[1:].argmax(-1).tolist() and one.best == answer.best[:1]
    assert idle(memory, pasts), "nothing was committed"
    for past, text, logits in zip(pasts, TEXTS, [*one.logits, *others.logits], strict=True):
        with memory.passing([past], [text]) as alone:
            torch.testing.assert_close(alone.logits[0], logits)


@pytest.mark.parametrize("where", ["__call__", "attends"])
def test_an_error_in_a_pass_takes_every_stage_back(
    memory: TextMemory, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    pasts = [memory.open() for _ in TEXTS]
    monkeypatch.setattr(LanguageModel if where == "__call__" else TextMemory, where, fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        memory.passing(pasts, TEXTS)
    assert idle(memory, pasts)


def test_a_discard_that_fails_keeps_no_other_stage_open(
    memory: TextMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pasts = [memory.open() for _ in TEXTS]
    answer = memory.passing(pasts, TEXTS)
    whole, last = Stage.discard, answer.stages[-1][-1]

    def discard(stage: Stage) -> None:
        whole(stage)
        if stage is last:
            raise RuntimeError("after all")

    monkeypatch.setattr(Stage, "discard", discard)
    with pytest.raises(RuntimeError, match="after all"), answer:
        pass
    assert idle(memory, pasts)
