"""What small models propose: trees behind the last token of each text, for a larger model to judge.

The target need not be a text pipeline: anything that knows its texts and can pass a tree uses this too, the
language model of a video-question model for one. Every draft model remembers the texts in pages of its own.
Shapes: B texts, n nodes, V vocabulary.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.errors import OutOfPagesError
from streamgen.pipelines.text_memory import Past, TextMemory
from streamgen.pipelines.text_request import TextSampling
from streamgen.pipelines.text_samples import Proposal
from streamgen.sampling.tree import TokenTree, depth_first, merge, padded
from streamgen.sampling.tree_growth import grow_drawn, grow_likeliest

CATCH_UP = 128  # tokens of a text that a draft model reads at a time


@dataclass(frozen=True)
class Asking:
    """One text that wants a proposal: who it is, all of its tokens, and how they are chosen."""

    key: Hashable
    tokens: Sequence[int]
    prompt: int  # how many of them are given
    sampling: TextSampling
    sample: int = 0


@dataclass(eq=False)
class Drafter:
    """Draft models that grow trees of these widths; `drawn` children come by chance instead of by rank."""

    memories: Sequence[TextMemory]
    widths: tuple[int, ...]
    drawn: bool = False
    _pasts: dict[tuple[int, Hashable], Past] = field(default_factory=dict)

    def propose(self, asking: Sequence[Asking]) -> list[Proposal]:
        """A tree for each text; the models' proposals are merged, in depth-first order."""
        columns = [self._of_one_model(number, asking) for number in range(len(self.memories))]
        return [_joined(rows) for rows in zip(*columns, strict=True)]

    def forget(self, key: Hashable) -> None:
        """This text has ended, or has made room for others."""
        for number in range(len(self.memories)):
            past = self._pasts.pop((number, key), None)
            if past is not None:
                past.close()

    def close(self) -> None:
        for past in self._pasts.values():
            past.close()
        self._pasts.clear()

    def _of_one_model(self, number: int, asking: Sequence[Asking]) -> list["_Grown"]:
        """Trees of one model; where its pages run out, it begins anew and proposes nothing this time."""
        try:
            pasts = [self._read(number, one) for one in asking]
            return self._grow(number, asking, pasts)
        except OutOfPagesError:
            for one in asking:
                past = self._pasts.pop((number, one.key), None)
                if past is not None:
                    past.close()
            return [_Grown(TokenTree.root(one.tokens[-1]), {}) for one in asking]

    def _read(self, number: int, one: Asking) -> Past:
        """The past of a text in one model, with all that is sure but the last few tokens."""
        memory, key = self.memories[number], (number, one.key)
        if key not in self._pasts:
            self._pasts[key] = memory.open("draft")
            memory.adopt(self._pasts[key], one.tokens[:-1])
        past = self._pasts[key]
        while len(one.tokens) - past.length > CATCH_UP:
            with memory.passing([past], [one.tokens[past.length : past.length + CATCH_UP]], last=1) as answer:
                answer.commit()
            memory.publish(past, one.tokens)  # others may begin alike
        return past

    def _grow(self, number: int, asking: Sequence[Asking], pasts: Sequence[Past]) -> list["_Grown"]:
        memory = self.memories[number]
        news = [TokenTree.chain(one.tokens[past.length :]) for one, past in zip(asking, pasts, strict=True)]
        nodes = max(map(len, news))
        rows = [padded(tree, nodes) for tree in news]
        with memory.passing(pasts, [ids for ids, _ in rows], [parents for _, parents in rows]) as answer:
            # The last token stays unread: every pass over the tree begins with it.
            answer.commit([range(len(tree) - 1) for tree in news])
        logits = [row[len(tree) - 1 :] for row, tree in zip(answer.logits, news, strict=True)]
        grown = [_Grown(TokenTree.root(one.tokens[-1]), {}) for one in asking]
        for depth, width in enumerate(self.widths):
            if depth:
                logits = self._pass(memory, pasts, [one.tree for one in grown])
            grown = [self._widen(number, *row, width) for row in zip(grown, asking, logits, strict=True)]
        return grown

    def _pass(self, memory: TextMemory, pasts: Sequence[Past], trees: Sequence[TokenTree]) -> list[Tensor]:
        """Logits [n, V] of every tree; nothing is remembered of it."""
        rows = [padded(tree, max(map(len, trees))) for tree in trees]
        with memory.passing(pasts, [ids for ids, _ in rows], [parents for _, parents in rows]) as answer:
            return list(answer.logits)

    def _widen(self, number: int, grown: "_Grown", one: Asking, logits: Tensor, width: int) -> "_Grown":
        if not self.drawn or one.sampling.greedy:
            return replace(grown, tree=grow_likeliest(grown.tree, logits, width))
        place = len(one.tokens) - one.prompt
        deepest = [n for n, depth in enumerate(grown.tree.depths) if depth == max(grown.tree.depths)]
        known = {node: one.sampling.chances(logits[node]) for node in deepest}
        tree = grow_drawn(
            grown.tree,
            known,
            width,
            lambda node, draw: one.sampling.dice(one.sample, place, f"draft {number} {node} {draw}"),
        )
        return _Grown(tree, grown.chances | known)


@dataclass(frozen=True)
class _Grown:
    """A tree of one model, and what the draws after its nodes came from."""

    tree: TokenTree
    chances: dict[int, Tensor]


def _joined(rows: Sequence[_Grown]) -> Proposal:
    """One tree of all models' trees."""
    merged, places = merge([row.tree for row in rows])
    ordered, order = depth_first(merged)
    now = {old: new for new, old in enumerate(order)}
    chances = {
        (source, now[place[node]]): given
        for source, (row, place) in enumerate(zip(rows, places, strict=True))
        for node, given in row.chances.items()
    }
    return Proposal(ordered, (lambda source, node: chances[source, node]) if chances else None)


def refuse_other_vocabularies(target: int, drafts: Sequence[int]) -> None:
    """A draft proposes tokens of the target's vocabulary."""
    for vocabulary in drafts:
        if vocabulary != target:
            raise UsageError(
                f"The draft model knows {vocabulary} tokens and the model {target}; a draft needs the same "
                "tokenizer. Give one that was made for this model."
            )
