"""The pages of one video-question session, and what happens in them when a piece of the stream comes."""

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from streamgen.errors import UsageError
from streamgen.kv.cache import KVCache
from streamgen.kv.hierarchical import Hierarchical
from streamgen.kv.pool import PagePool
from streamgen.kv.retention import KeepAll, Retention
from streamgen.kv.snapshot import load, save
from streamgen.models.vlm import Piece
from streamgen.pipelines.videoqa_keep import Gone, Guide, Keeper, keeper_of
from streamgen.pipelines.videoqa_log import Counts, QAStats
from streamgen.pipelines.videoqa_memory import Full, Memory, Room, StreamLimitError, geometry
from streamgen.pipelines.videoqa_parts import QAParts
from streamgen.pipelines.videoqa_stream import LayeredStream


class StreamRoom:
    """A pool of its own, one stream in it, and the keeper that lets its tokens go."""

    def __init__(
        self, parts: QAParts, memory: Memory, room: Room, fill: Callable[[PagePool], KVCache]
    ) -> None:
        """`fill` opens the cache in the pool: empty, or with a past. What fails gives every byte back."""
        self.parts, self.memory, self.room = parts, memory, room
        self.keeper: Keeper = keeper_of(memory)
        vlm = parts.vlm
        self.pool = PagePool(parts.arena, geometry(vlm, vlm.dtype), room.pages(vlm.layers), "video memory")
        self._closing = weakref.finalize(self, self.pool.close)
        try:
            self.stream = LayeredStream(vlm, fill(self.pool), parts.attention, room.prompt)
        except BaseException:
            self.close()
            raise

    @classmethod
    def begin(cls, parts: QAParts, memory: Memory, room: Room, prompt: Sequence[int]) -> "StreamRoom":
        """A new stream that has read its prompt."""
        made = cls(parts, memory, room, lambda pool: pool.cache(_retention(memory)))
        try:
            made.stream.feed(parts.vlm.words(prompt))
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def load(
        cls, parts: QAParts, memory: Memory, room: Room, path: Path, state: dict[str, list[int]]
    ) -> "StreamRoom":
        """A stream that was saved."""
        made = cls(parts, memory, room, lambda pool: load(pool, path, _retention(memory)))
        made.keeper = keeper_of(memory, state)
        return made

    def copy(self) -> "StreamRoom":
        """The same past in a pool of its own."""

        def fill(pool: PagePool) -> KVCache:
            cache = pool.cache(_retention(self.memory))
            self.stream.copied_to(cache)
            return cache

        made = StreamRoom(self.parts, self.memory, self.room, fill)
        made.keeper = keeper_of(self.memory, self.keeper.state)
        return made

    def save(self, path: Path) -> None:
        save(self.stream.cache, path)

    def take(self, piece: Piece, frames: Sequence[int], guide: Guide) -> tuple[Gone | None, float]:
        """Remember a piece that shows these frames, then let go; what fails leaves the past as it was.

        What went, and the moment (time.perf_counter) at which the piece was in.
        """
        self._make_space(piece)
        self.stream.feed(piece)
        fed = time.perf_counter()
        try:
            gone = self.keeper.settle(self.stream, piece, frames, guide)
        except BaseException:
            self.stream.cache.rewind(piece.tokens)
            raise
        self._keep_positions_for_a_question()
        return gone, fed

    def stats(self, counts: Counts, pending: int) -> QAStats:
        """What a session holds now, beside what it has counted."""
        pool, geometry = self.pool, self.pool.geometry
        lengths = self.stream.lengths
        return QAStats(
            **asdict(counts),
            pending=pending,
            tokens=lengths,
            position=max(self.stream.starts) - 1,
            bytes_held=sum(lengths) * geometry.slot_bytes,
            bytes_reserved=pool.pages.total * geometry.page_bytes,
            pages=pool.pages.total,
            pages_free=pool.pages.free,
        )

    def close(self) -> None:
        """Give every page back; closing twice is harmless."""
        self._closing()

    def require_open(self) -> None:
        if self.pool.closed:
            raise UsageError("This session is closed; open a new one.")

    def _make_space(self, piece: Piece) -> None:
        """Positions and pages for a piece, or a refusal before anything has changed."""
        if isinstance(self.memory, Full) and self.stream.video + piece.tokens > self.room.video:
            raise StreamLimitError(
                f"The full memory holds {self.stream.video} of at most {self.room.video} video tokens and "
                f"the next chunk brings {piece.tokens}; ask now, or watch with memory='hermes'."
            )
        span = int(piece.places.max()) + 1
        if max(self.stream.starts) + span + self.room.question > self.parts.vlm.limit:
            self.stream.renumber()
        if max(self.stream.starts) + span + self.room.question > self.parts.vlm.limit:
            raise StreamLimitError(
                f"The next chunk needs {span} positions behind {max(self.stream.starts)}, and "
                f"{self.room.question} for a question; the model knows {self.parts.vlm.limit}. "
                "Take a smaller budget or smaller chunks."
            )

    def _keep_positions_for_a_question(self) -> None:
        if max(self.stream.starts) + self.room.question > self.parts.vlm.limit:
            self.stream.renumber()


def _retention(memory: Memory) -> Retention:
    return memory if isinstance(memory, Hierarchical) else KeepAll()
