"""Beam search by fork: beams share every page that they agree on; a beam that loses gives its own ones back.

The rule is that of transformers' `generate`: twice as many candidates as beams, a finished beam scores its
summed log probability over its length to the power of the penalty, and the search ends when no running beam
can do better than the worst finished one. Shapes: K beams, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from streamgen.pipelines.text_chunk import Finished, Speller, TextChunk
from streamgen.pipelines.text_memory import Past, TextMemory
from streamgen.pipelines.text_pass import Rows
from streamgen.pipelines.text_request import TextRequest
from streamgen.pipelines.text_samples import Proposal, Text


@dataclass(frozen=True)
class Ended:
    """A beam that has ended."""

    score: float
    tokens: tuple[int, ...]  # after the prompt
    why: Finished


@dataclass(frozen=True)
class Move:
    """The next state of a beam: which beam it continues, with which token."""

    parent: int
    token: int
    total: float


@dataclass(eq=False)
class Beams:
    """The group of a request with beams; nothing is told before the search has ended."""

    index: int
    request: TextRequest
    memory: TextMemory
    spellers: list[Speller]
    past: Past | None = None
    texts: list[Text] = field(default_factory=list)
    news: list[TextChunk] = field(default_factory=list)
    speculates: bool = False
    totals: list[float] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)

    def pasts(self) -> list[Past]:
        return [text.past for text in self.texts] + ([] if self.past is None else [self.past])

    def begin(self, answer: Rows) -> None:
        """The prompt is computed: its best continuations are the first beams."""
        assert self.past is not None, "a group begins once"
        self.texts = [Text(0, self.past, list(self.request.prompt))]
        self.totals, self.past = [0.0], None
        self.take([], answer)
        self.settle()

    def take(self, proposals: Sequence[Proposal], answer: Rows) -> list[list[int]]:
        """Rank the continuations of all beams."""
        rows = answer.logits[:, 0].float().log_softmax(-1).cpu()
        totals = rows + torch.tensor(self.totals)[:, None]
        vocabulary, width = totals.shape[1], self.request.beams
        wanted = min(max(2, 1 + len(self.request.stops)) * width, totals.numel())
        best = totals.flatten().topk(wanted)
        length = len(self.texts[0].tokens) - len(self.request.prompt) + 1
        ranked = [
            Move(place // vocabulary, place % vocabulary, total)
            for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        last = length == self.request.max_tokens
        for move in ranked[:width]:  # only what ranks as a beam may end
            if move.token in self.request.stops or last:
                self._end(move, length, "stop" if move.token in self.request.stops else "length")
        running = [move for move in ranked if move.token not in self.request.stops][:width]
        self.moves = [] if last or self._hopeless(running, length) else running
        return [[0]] * len(self.texts)

    def settle(self) -> None:
        """Fork the beams that go on, let the others go, tell the result at the end."""
        parents, used, texts = self.texts, set(), []
        for number, move in enumerate(self.moves):
            parent = parents[move.parent]
            past = parent.past.fork() if move.parent in used else parent.past
            used.add(move.parent)
            texts.append(Text(number, past, [*parent.tokens, move.token]))
        for number, parent in enumerate(parents):
            if number not in used:
                parent.past.close()
        self.texts, self.totals = texts, [move.total for move in self.moves]
        if not texts:
            self._tell()

    def close(self) -> None:
        for past in self.pasts():
            past.close()
        self.texts, self.past = [], None

    def _end(self, move: Move, length: int, why: Finished) -> None:
        before = self.texts[move.parent].tokens[len(self.request.prompt) :]
        score = move.total / length**self.request.length_penalty
        self.ended.append(Ended(score, (*before, move.token), why))
        self.ended = sorted(self.ended, key=lambda one: -one.score)[: self.request.beams]

    def _hopeless(self, running: Sequence[Move], length: int) -> bool:
        """No running beam can do better than the worst of enough finished ones."""
        if len(self.ended) < self.request.beams or not running:
            return not running
        return running[0].total / length**self.request.length_penalty <= self.ended[-1].score

    def _tell(self) -> None:
        for rank, (one, speller) in enumerate(zip(self.ended, self.spellers, strict=False)):
            text = speller.add(one.tokens, last=True)
            self.news.append(TextChunk(self.index, rank, one.tokens, text, one.why, one.score))
