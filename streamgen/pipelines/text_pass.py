"""What one pass of a language model answers, and what becomes of the tokens that it staged.

Shapes: B texts, T staged tokens, V vocabulary.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from torch import Tensor

from streamgen.kv.stage import Stage

if TYPE_CHECKING:
    from streamgen.pipelines.text_memory import Past


@dataclass(eq=False)
class Pass:
    """The answer of one pass over staged tokens; what is not committed in its with-block leaves no trace."""

    logits: Tensor  # [B, T, V], or of the last tokens only
    pasts: Sequence["Past"]
    stages: Sequence[Sequence[Stage]]  # of each text, one a group

    @cached_property
    def best(self) -> list[list[int]]:
        """[B][T]: the likeliest tokens, chosen for all texts at once."""
        chosen: list[list[int]] = self.logits.argmax(-1).tolist()
        return chosen

    def of(self, first: int, texts: int = 1) -> "Rows":
        return Rows(self, slice(first, first + texts))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        discard(self.stages)

    def commit(self, keep: Sequence[Sequence[int]] | None = None) -> None:
        """Remember the staged tokens of every text, or those in `keep`: an accepted path."""
        for number, (past, stages) in enumerate(zip(self.pasts, self.stages, strict=True)):
            kept = None if keep is None else keep[number]
            count = stages[0].tokens if kept is None else len(kept)
            kept = None if count == stages[0].tokens else kept
            for stage in stages:
                stage.commit(kept)
            past.length += count


@dataclass(frozen=True)
class Rows:
    """What a pass answers to neighbouring texts of it; nothing is cut out before it is asked for."""

    answer: Pass
    texts: slice

    @property
    def logits(self) -> Tensor:
        """[texts, T, V]"""
        return self.answer.logits[self.texts]

    @property
    def best(self) -> list[list[int]]:
        """[texts][T]: the likeliest tokens."""
        return self.answer.best[self.texts]


def discard(stages: Sequence[Sequence[Stage]]) -> None:
    """Take back what is not committed, what was staged last first; one that fails keeps no other back."""
    with ExitStack() as undo:
        for row in stages:
            for stage in row:
                undo.push(stage)
