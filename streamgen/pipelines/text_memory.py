"""What texts remember of themselves: one paged pool for each window of the model, and the pass over them.

Layers with the same window share pages and tables; a text is one cache in each of these groups. Nothing is
allocated for what a window will let go. Shapes: B texts, T staged tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch

from streamgen.attention.check import checked
from streamgen.attention.contract import Attend, Kernel, Need, mask_kind
from streamgen.attention.trunks import longest_trunk
from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.kv.cache import KVCache
from streamgen.kv.geometry import Geometry
from streamgen.kv.masks import Causal, Mask, Tree
from streamgen.kv.pool import PagePool
from streamgen.kv.prefix import PrefixIndex
from streamgen.kv.retention import KeepAll, SinkWindow
from streamgen.kv.stage import Stage
from streamgen.kv.swap import Swapped
from streamgen.kv.view import View
from streamgen.models.lm import LanguageModel
from streamgen.pipelines.text_pass import Pass, discard

PAGE_SIZE = 16


@dataclass(frozen=True, eq=False)
class WindowGroup:
    """The layers that see equally far, and their pages."""

    window: int | None  # keys that a token sees, itself included
    layers: tuple[int, ...]
    pool: PagePool
    prefixes: PrefixIndex
    slack: int  # remembered tokens that the window can take back

    def pages(self, tokens: int, staged: int) -> int:
        """The most pages that one text holds with so many tokens, the last `staged` being computed."""
        size = self.pool.geometry.page_size
        if self.window is None:
            return -(-tokens // size)
        held = self.window + self.slack - 1 + staged
        return -(-tokens // size) if tokens <= held else -(-held // size) + 1

    def most(self, prompt: int, new: int, texts: int, chunk: int, nodes: int) -> int:
        """The most pages of a request, one of them being copied.

        Its texts share the full pages of the prompt, unless a window moves.
        """
        shared = 0 if self.window is not None else prompt // self.pool.geometry.page_size
        return shared + texts * (self.pages(prompt + new - 1 + nodes, max(chunk, nodes)) - shared) + 1

    def mask(self, parents: tuple[int, ...] | None) -> Mask:
        return Causal(self.window) if parents is None else Tree(parents, self.window)


class Past:
    """What one text remembers: a cache in every group. `length` counts all tokens, remembered or let go.

    `weights` numbers the weights that it was begun with: nobody with others may begin like it.
    """

    def __init__(self, memory: "TextMemory", caches: Sequence[KVCache], length: int, weights: int) -> None:
        self.memory = memory
        self.caches = tuple(caches)
        self.length = length
        self.weights = weights

    def fork(self) -> "Past":
        """Share every page; whoever writes first copies what it touches."""
        return Past(self.memory, [cache.fork() for cache in self.caches], self.length, self.weights)

    def rewind(self, tokens: int) -> None:
        """Forget the last tokens; refused where a window has let go what would be seen again."""
        for group, cache in zip(self.memory.groups, self.caches, strict=True):
            needed = self.length - tokens
            if group.window is not None:
                needed = min(needed, group.window - 1)
            if not 0 <= tokens <= self.length or cache.tokens - tokens < needed:
                raise UsageError(
                    f"A text of {self.length} tokens cannot be rewound by {tokens}: {cache.tokens} are kept "
                    f"for a window of {group.window}; fork() before, give the memory slack, or rewind less."
                )
        for cache in self.caches:
            cache.rewind(tokens)
        self.length -= tokens

    def close(self) -> None:
        for cache in self.caches:
            cache.close()


def pools_of(
    model: LanguageModel, tokens: int, texts: int, staged: int, page_size: int, slack: int = 0
) -> Iterator[tuple[int | None, tuple[int, ...], Geometry, int]]:
    """Of every group of layers: its window, its layers, and the pool that it gets, as geometry and pages."""
    for window in dict.fromkeys(model.windows):
        layers = tuple(layer for layer, seen in enumerate(model.windows) if seen == window)
        geometry = Geometry(len(layers), model.kv_heads, model.head_dim, page_size, model.dtype)
        pages = -(-tokens // page_size)
        if window is not None:
            pages = min(pages, texts * (-(-(window - 1 + staged + slack) // page_size) + 2))
        yield window, layers, geometry, pages


class TextMemory:
    """The pages of one language model, drawn on one budget; leaving the with-block gives them back."""

    def __init__(
        self,
        model: LanguageModel,
        arena: Arena,
        tokens: int,
        texts: int,
        staged: int,
        attention: str,
        page_size: int = PAGE_SIZE,
        slack: int = 0,
        name: str = "text memory",
    ) -> None:
        """Room for `tokens` in all; where there is a window, for `texts` windows if that is less.

        staged: the most tokens of one pass. slack: how many remembered tokens a window can take back.
        """
        self.model = model
        self.attention = attention
        self.page_size = page_size
        self._version = 0
        self._kernels: dict[tuple[object, ...], Kernel] = {}
        groups = []
        with ExitStack() as undo:
            for window, layers, geometry, pages in pools_of(model, tokens, texts, staged, page_size, slack):
                label = name if window is None else f"{name}, window {window}"
                pool = undo.enter_context(PagePool(arena, geometry, pages, label))
                groups.append(WindowGroup(window, layers, pool, PrefixIndex(pool), slack))
            self._held = undo.pop_all()
        self.groups: tuple[WindowGroup, ...] = tuple(groups)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._held.close()

    def open(self, name: str = "") -> Past:
        """An empty past."""
        caches = []
        for group in self.groups:
            retention = KeepAll() if group.window is None else SinkWindow(group.window + group.slack)
            caches.append(group.pool.cache(retention, name=name))
        return Past(self, caches, 0, self._version)

    def adopt(self, past: Past, tokens: Sequence[int]) -> int:
        """Let an empty past begin with pages that are known; returns how many tokens need no computing."""
        pairs = list(zip(self.groups, past.caches, strict=True))
        found = [group.prefixes.adopt(cache, tokens, str(past.weights)) for group, cache in pairs]
        past.length = min(found)
        for (_, cache), count in zip(pairs, found, strict=True):
            cache.rewind(count - past.length)
        return past.length

    def publish(self, past: Past, tokens: Sequence[int]) -> None:
        """Let later texts begin with these tokens, as far as no window has let any of them go."""
        for group, cache in zip(self.groups, past.caches, strict=True):
            if cache.tokens == past.length:
                group.prefixes.publish(cache, tokens[: past.length], str(past.weights))

    def forget_prefixes(self) -> None:
        """What was published counts no more, nor what is being computed: the weights have changed."""
        self._version += 1

    @property
    def shares_prefixes(self) -> bool:
        """Whether a published beginning serves others, however long it is."""
        return all(group.window is None for group in self.groups)

    def fits(self, wanted: Sequence[tuple[Past, int]], staged: int, spare: int) -> bool:
        """Whether these texts can grow to so many tokens and leave `spare` pages of every group."""
        for number, group in enumerate(self.groups):
            held = [len(past.caches[number].tables[0].pages) for past, _ in wanted]
            grown = [group.pages(tokens, staged) for _, tokens in wanted]
            need = sum(max(0, more - there) for more, there in zip(grown, held, strict=True))
            if need + spare > group.pool.pages.free:
                return False
        return True

    def spares(self, parked: Sequence[Swapped], spare: int) -> bool:
        """Whether parked texts can come back and leave `spare` pages of every group."""
        return all(
            len(swapped.stored) + spare <= group.pool.pages.free
            for group, swapped in zip(self.groups, parked, strict=True)
        )

    def refuse_too_much(self, prompt: int, new: int, texts: int, chunk: int, nodes: int) -> None:
        """Refuse a request that would not fit even alone."""
        for group in self.groups:
            most, total = group.most(prompt, new, texts, chunk, nodes), group.pool.pages.total
            if most > total:
                size = group.pool.geometry.page_size
                raise UsageError(
                    f"{texts} text(s) of {prompt} + {new} tokens may need {most} pages of {size} tokens and "
                    f"{group.pool.name} has {total}; ask for fewer tokens, samples or beams, or for a memory "
                    f"of more tokens than {total * size}."
                )

    def passing(
        self,
        pasts: Sequence[Past],
        tokens: Sequence[Sequence[int]],
        parents: Sequence[tuple[int, ...]] | None = None,
        last: int = 0,
    ) -> Pass:
        """Compute equally many tokens of every text behind its past, as a chain or as trees.

        Room for all of them is found first, or OutOfPagesError is raised and nothing has changed. Enter the
        answer by `with`: the staged tokens hold their pages until that block ends.
        """
        trees = [None] * len(pasts) if parents is None else list(parents)
        stages: list[list[Stage]] = []
        try:
            for past, ids, tree in zip(pasts, tokens, trees, strict=True):
                stages.append([])
                for group, cache in zip(self.groups, past.caches, strict=True):
                    stages[-1].append(cache.stage(len(ids), group.mask(tree)))
            places = [
                [past.length + depth for depth in (range(len(ids)) if tree is None else Tree(tree).depths)]
                for past, ids, tree in zip(pasts, tokens, trees, strict=True)
            ]
            device = self.groups[0].pool.device
            given, positions = (torch.tensor(rows, device=device) for rows in (tokens, places))
            with torch.inference_mode():
                return Pass(self.model(given, positions, self.attends(stages), last), pasts, stages)
        except BaseException:
            discard(stages)
            raise

    def attends(self, stages: Sequence[Sequence[Stage]]) -> list[Attend]:
        """One Attend a layer, from the caches of its group."""
        by_layer: dict[int, Attend] = {}
        for number, group in enumerate(self.groups):
            mine = [row[number] for row in stages]
            kernel = self._kernel(mine)
            by_layer |= dict(zip(group.layers, kernel.plan(mine, self.model.q_heads), strict=True))
        return [by_layer[layer] for layer in range(self.model.layers)]

    def _kernel(self, stages: Sequence[Stage]) -> Kernel:
        """The kernel for a pass; asked anew only when its shape changes by more than a token."""
        [views] = zip(*[stage.views for stage in stages], strict=True)
        visible = max(view.past + view.tokens for view in views)
        shape = (
            tuple(mask_kind(stage.mask, view) for stage, view in zip(stages, views, strict=True)),
            views[0].tokens,
            visible.bit_length(),
            longest_trunk(views, [stage.mask for stage in stages]).bit_length(),
            self._layout(views),
        )
        if shape not in self._kernels:
            need = Need.of(stages, self.model.q_heads, self.model.softcap)
            self._kernels[shape] = checked(self.attention, need)
        return self._kernels[shape]

    def _layout(self, views: Sequence[View]) -> tuple[object, ...]:
        """How the tokens lie, as far as the choice of a kernel hangs on it: pages only matter on a GPU."""
        runs = max(len(view.runs) for view in views)
        on_cpu = self.groups[0].pool.device == "cpu"
        return runs, on_cpu or all(view.pages is not None for view in views)
