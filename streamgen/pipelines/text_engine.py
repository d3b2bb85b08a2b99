"""Who is computed when: admission by rule, prompts in chunks, one token or one tree a step, swap and resume.

The groups (a request with all of its samples or beams) come first, served first. A request waits until the
pages for its prompt are free; while a group is parked in host memory, nobody new is admitted. When a step
finds no pages, the group that came last is parked, all of it, and comes back when its pages are free again.
A group that is alone in its stream makes room among the pipeline's other streams in the same way.
A request that could not even be served alone was refused before. Shapes: B texts, n nodes, V vocabulary.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from streamgen.kv.errors import OutOfPagesError
from streamgen.kv.swap import Swapped
from streamgen.pipelines.text_beams import Beams
from streamgen.pipelines.text_chunk import TextChunk
from streamgen.pipelines.text_draft import Asking, Drafter
from streamgen.pipelines.text_memory import Past, TextMemory
from streamgen.pipelines.text_parking import park, unpark
from streamgen.pipelines.text_pass import Pass
from streamgen.pipelines.text_samples import Proposal, Samples, Text
from streamgen.pipelines.text_turns import Turns
from streamgen.sampling.tree import TokenTree, padded

Group = Samples | Beams
Row = tuple[Past, Sequence[int], tuple[int, ...] | None]  # a text, its next tokens, their parents in a tree


@dataclass
class TextCounters:
    """What a pipeline has done so far."""

    passes: int = 0  # of the model over texts that are being written
    prompt_tokens: int = 0  # computed
    shared_tokens: int = 0  # of prompts, found in pages of others
    new_tokens: int = 0
    proposed: int = 0  # tokens on the longest path of each tree
    accepted: int = 0  # of those
    parked: int = 0  # groups
    resumed: int = 0

    @property
    def acceptance(self) -> float:
        """Accepted tokens for each proposed one."""
        return self.accepted / self.proposed if self.proposed else 0.0


@dataclass(eq=False)
class _Parked:
    group: Group
    swapped: list[Swapped]


@dataclass(eq=False)
class Engine:
    """Serves the requests of one stream."""

    memory: TextMemory
    waiting: deque[Group]
    most_texts: int
    chunk: int  # tokens of a prompt in one pass
    counters: TextCounters
    turns: Turns
    drafter: Drafter | None = None
    running: list[Group] = field(default_factory=list)  # unfinished, in the order in which they came
    parked: list[_Parked] = field(default_factory=list)  # in the order in which they came
    _owed: bool = False  # a step that was put off for first tokens

    def __post_init__(self) -> None:
        self.turns.join(self)

    def __iter__(self) -> Iterator[TextChunk]:
        try:
            while self.busy:
                yield from self.step()
        finally:
            self.close()

    @property
    def busy(self) -> bool:
        """Whether any text has not ended."""
        return bool(self.waiting or self.running or self.parked)

    def step(self) -> list[TextChunk]:
        """One chunk of every prompt that is being read, one step of every text that is being written.

        First tokens do not wait for the others' next ones; those follow in the next step at the latest.
        """
        with self.turns.turn:
            return self._step()

    def _step(self) -> list[TextChunk]:
        self._resume()
        self._admit()
        groups = list(self.running)
        self._read()
        begun = any(group.news for group in groups)
        if self._owed or not begun:
            self._write()
        self._owed = begun and not self._owed
        news = [chunk for group in groups for chunk in group.news]
        for group in groups:
            group.news = []
        self.counters.new_tokens += sum(len(chunk.tokens) for chunk in news)
        return news

    def close(self) -> None:
        """Give back every page, whatever has happened."""
        with self.turns.turn:
            for group in [*self.running, *(one.group for one in self.parked)]:
                group.close()
            if self.drafter is not None:
                self.drafter.close()
            self.running, self.waiting, self.parked = [], deque(), []

    def give_way(self) -> bool:
        """Leave the pages of the group that came last, all of them; False where none holds any."""
        if not self.running:
            return False
        last = self.running.pop()
        for text in last.texts:
            self._forget(text)
        insort(self.parked, _Parked(last, park(last.pasts())), key=lambda one: one.group.index)
        self.counters.parked += 1
        return True

    def _resume(self) -> None:
        """Bring back who came first, as long as there is room, and a page to go on with."""
        while self.parked:
            first = self.parked[0]
            writing = [past for group in [*self.running, first.group] for past in group.pasts()]
            if self.running and not self.memory.spares(first.swapped, len(writing)):
                return
            while not self.memory.spares(first.swapped, 0) and self.turns.make_room(self):
                pass
            unpark(self.memory, first.swapped)
            insort(self.running, self.parked.pop(0).group, key=lambda group: group.index)
            self.counters.resumed += 1

    def _admit(self) -> None:
        """Let requests in, first come first served, while the pages for their prompts are free."""
        while self.waiting and not self.parked:
            group = self.waiting[0]
            texts = sum(one.request.texts for one in self.running)
            if self.running and texts + group.request.texts > self.most_texts:
                return
            if any(self._begins_alike(group, other) for other in self.running):
                return
            past = self.memory.open(f"text {group.index}")
            found = self.memory.adopt(past, group.request.prompt)
            if self.running and not self._fits(group, past):
                past.close()
                return
            group.past = past
            self.counters.shared_tokens += found
            self.running.append(self.waiting.popleft())

    def _begins_alike(self, group: Group, other: Group) -> bool:
        """Whether a prompt that is still being read begins like this one: its pages will serve both."""
        if other.past is None or not self.memory.shares_prefixes:
            return False
        pairs = zip(group.request.prompt[:-1], other.request.prompt, strict=False)
        alike = next((n for n, (a, b) in enumerate(pairs) if a != b), len(other.request.prompt))
        return min(alike, len(group.request.prompt) - 1) >= self.memory.page_size

    def _fits(self, group: Group, past: Past) -> bool:
        """Its prompt, a page for each text, and what is promised to the prompts that are being read."""
        reading = [(one.past, len(one.request.prompt)) for one in self.running if one.past is not None]
        texts = sum(one.request.texts for one in [*self.running, group])
        return self.memory.fits([*reading, (past, len(group.request.prompt))], self.chunk, texts)

    def _read(self) -> None:
        """The next chunk of every prompt; prompts whose chunks are equally long go together."""
        pieces: dict[int, list[Group]] = {}
        for group in self.running:
            if group.past is not None:
                left = len(group.request.prompt) - group.past.length
                pieces.setdefault(min(left, self.chunk), []).append(group)
        for tokens, groups in pieces.items():
            answer, here = self._pass(groups, partial(_piece, tokens=tokens), last=1)
            if answer is None:
                continue
            with answer:
                answer.commit()
            self.counters.prompt_tokens += tokens * len(here)
            for number, group in enumerate(here):
                past, prompt = group.past, group.request.prompt
                assert past is not None, "a prompt that is being read has a past"
                self.memory.publish(past, prompt)
                if past.length == len(prompt):
                    group.begin(answer.of(number))
            self._let_go()

    def _write(self) -> None:
        """One step of every text: its last token, with what is proposed behind it."""
        writing = [group for group in self.running if group.past is None]
        trees = self._propose(
            [text for group in writing if group.speculates for text in group.texts], writing
        )
        nodes = max((len(proposal.tree) for proposal in trees.values()), default=1)

        def rows(group: Group) -> list[Row]:
            if nodes == 1:
                return [(text.past, text.tokens[-1:], None) for text in group.texts]
            return [(text.past, *padded(trees[text].tree, nodes)) for text in group.texts]

        answer, here = self._pass(writing, rows)
        if answer is None:
            return
        with answer:
            keeps: list[list[int]] = []
            for group in here:
                mine = answer.of(len(keeps), len(group.texts))
                keeps += group.take([trees[text] for text in group.texts], mine)
            answer.commit(keeps)
        self.counters.passes += 1
        for group in here:
            for text in group.texts:
                self.counters.proposed += text.proposed
                self.counters.accepted += text.accepted
                text.proposed = text.accepted = 0
                if text.finished:
                    self._forget(text)
            group.settle()
        self._let_go()

    def _let_go(self) -> None:
        """Groups that have ended make no room and get none, from the pass on that ended them."""
        self.running = [group for group in self.running if group.pasts()]

    def _propose(self, texts: Sequence[Text], groups: Sequence[Group]) -> dict[Text, Proposal]:
        """A tree behind every text: its last token alone where nobody drafts."""
        trees = {text: Proposal(TokenTree.root(text.tokens[-1])) for group in groups for text in group.texts}
        if self.drafter is not None and texts:
            owners = {text: group.request for group in groups for text in group.texts}
            asking = [
                Asking(text, text.tokens, len(owners[text].prompt), owners[text].sampling, text.number)
                for text in texts
            ]
            trees |= dict(zip(texts, self.drafter.propose(asking), strict=True))
        return trees

    def _forget(self, text: Text) -> None:
        if self.drafter is not None:
            self.drafter.forget(text)

    def _pass(
        self, groups: Sequence[Group], rows: Callable[[Group], list[Row]], last: int = 0
    ) -> tuple[Pass | None, list[Group]]:
        """One pass over these groups, or over those that remain when others had to make room."""
        while True:
            here = [group for group in groups if group in self.running]
            listed = [row for group in here for row in rows(group)]
            if not listed:
                return None, here
            pasts, tokens, parents = zip(*listed, strict=True)
            trees = None if parents[0] is None else parents
            try:
                return self.memory.passing(pasts, tokens, trees, last), here
            except OutOfPagesError:
                moved = self.give_way() if len(self.running) > 1 else self.turns.make_room(self)
                if not moved:
                    raise  # a group that is alone was found to fit: somebody else holds pages


def _piece(group: Group, tokens: int) -> list[Row]:
    assert group.past is not None, "a prompt that is being read has a past"
    start = group.past.length
    return [(group.past, group.request.prompt[start : start + tokens], None)]
