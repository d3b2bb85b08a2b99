"""The texts of one request that are written side by side: one, or several samples of a prompt.

They share the pages of the prompt; each copies at most the page it writes into.
Shapes: n nodes, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from streamgen.pipelines.text_chunk import Finished, Speller, TextChunk
from streamgen.pipelines.text_memory import Past, TextMemory
from streamgen.pipelines.text_pass import Rows
from streamgen.pipelines.text_request import TextRequest
from streamgen.sampling.tree import TokenTree
from streamgen.sampling.tree_verify import Verdict, verify_chosen, verify_drawn, verify_greedy

DraftChances = Callable[[int, int], Tensor]  # (source, node) -> [V]


@dataclass(frozen=True)
class Proposal:
    """A tree behind the last token of a text; `draft` where its children were drawn by chance."""

    tree: TokenTree
    draft: DraftChances | None = None


@dataclass(eq=False)
class Text:
    """One text that grows: all of its tokens, the last of which is not remembered yet."""

    number: int  # of the sample or beam
    past: Past
    tokens: list[int]
    finished: Finished = ""
    proposed: int = 0
    accepted: int = 0


@dataclass(eq=False)
class Samples:
    """The group of a request without beams. `texts` are the unfinished ones."""

    index: int  # of the prompt
    request: TextRequest
    memory: TextMemory
    spellers: list[Speller]
    past: Past | None = None  # of the prompt, until the texts have begun
    texts: list[Text] = field(default_factory=list)
    news: list[TextChunk] = field(default_factory=list)
    speculates: bool = True

    def pasts(self) -> list[Past]:
        return [text.past for text in self.texts] + ([] if self.past is None else [self.past])

    def begin(self, answer: Rows) -> None:
        """The prompt is computed: choose the first token of every sample."""
        assert self.past is not None, "a group begins once"
        pasts = [self.past, *(self.past.fork() for _ in range(self.request.samples - 1))]
        self.past = None
        for number, past in enumerate(pasts):
            text = Text(number, past, list(self.request.prompt))
            self.texts.append(text)
            [verdict] = self._judge([text], [Proposal(TokenTree.root(text.tokens[-1]))], answer)
            self._gain(text, [verdict.token])
        self.settle()

    def take(self, proposals: Sequence[Proposal], answer: Rows) -> list[list[int]]:
        """Judge the tree of every text; returns the nodes that are to be remembered."""
        keeps = []
        verdicts = self._judge(self.texts, proposals, answer)
        for text, proposal, verdict in zip(self.texts, proposals, verdicts, strict=True):
            text.proposed += max(proposal.tree.depths)
            text.accepted += len(verdict.nodes) - 1
            self._gain(text, verdict.tokens(proposal.tree), proposal.tree, verdict.nodes[1:])
            keeps.append(list(verdict.nodes))
        return keeps

    def settle(self) -> None:
        """Let finished texts go; what they computed may serve others."""
        for text in self.texts:
            if text.finished:
                self.memory.publish(text.past, text.tokens)
                text.past.close()
        self.texts = [text for text in self.texts if not text.finished]

    def close(self) -> None:
        for past in self.pasts():
            past.close()
        self.texts, self.past = [], None

    def _judge(self, texts: Sequence[Text], proposals: Sequence[Proposal], answer: Rows) -> list[Verdict]:
        if self.request.sampling.greedy:
            return [verify_greedy(one.tree, row) for one, row in zip(proposals, answer.best, strict=True)]
        return [self._draw(*row) for row in zip(texts, proposals, answer.logits, strict=True)]

    def _draw(self, text: Text, proposal: Proposal, logits: Tensor) -> Verdict:
        sampling = self.request.sampling
        place = len(text.tokens) - len(self.request.prompt)

        def target(node: int) -> Tensor:
            return sampling.chances(logits[node])

        if proposal.draft is None:
            return verify_chosen(
                proposal.tree, target, lambda depth: sampling.dice(text.number, place + depth)
            )
        return verify_drawn(
            proposal.tree,
            target,
            proposal.draft,
            lambda depth: sampling.dice(text.number, place + depth),
        )

    def _gain(
        self,
        text: Text,
        tokens: Sequence[int],
        tree: TokenTree | None = None,
        accepted: tuple[int, ...] = (),
    ) -> None:
        """Add tokens up to the first that ends the text, and tell them and what was proposed."""
        left = self.request.max_tokens - (len(text.tokens) - len(self.request.prompt))
        gained = list(tokens[:left])
        end = next((number for number, token in enumerate(gained) if token in self.request.stops), None)
        if end is not None:
            gained, text.finished = gained[: end + 1], "stop"
        elif len(gained) == left:
            text.finished = "length"
        text.tokens += gained
        spelled = self.spellers[text.number].add(gained, last=bool(text.finished))
        told = tree if tree is not None and len(tree) > 1 else None
        self.news.append(
            TextChunk(
                self.index,
                text.number,
                tuple(gained),
                spelled,
                text.finished,
                tree=told,
                accepted=accepted[: len(gained)],
            )
        )
