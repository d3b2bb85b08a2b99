"""VideoQASession: one stream that is watched, and asked about. Shapes: H height, W width of a frame."""

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.kv.hierarchical import Depth
from streamgen.pipelines.videoqa_answer import answer, listed, meant, pieces
from streamgen.pipelines.videoqa_files import save_session
from streamgen.pipelines.videoqa_keep import Gone
from streamgen.pipelines.videoqa_log import LOGGED, Eviction, Exchange, QAStats, Told, Watched
from streamgen.pipelines.videoqa_room import StreamRoom
from streamgen.pipelines.videoqa_sources import Picture, Source, checked_picture, pictures


class VideoQASession:
    """Use it as a context manager: leaving it, closing it or dropping it gives every page back."""

    def __init__(self, room: StreamRoom, told: Told) -> None:
        self.room = room
        self.parts = room.parts
        self.steer = told.steer
        self.counts = told.counts
        self.evictions: deque[Eviction] = deque(told.evictions, maxlen=LOGGED)
        self.history: deque[Exchange] = deque(told.history, maxlen=LOGGED)
        self.pending = told.pending  # frames that wait for a chunk to be full
        self._asking = 0
        self._turn = threading.RLock()  # watching and answering take turns, step by step

    def watch(self, source: Source, fps: float | None = None, rate: float | None = None) -> Iterator[Watched]:
        """Look at a source, one chunk for each pull; `videoqa_sources` tells what can be watched.

        `fps` frames of it are looked at in a second (the checkpoint's unless given); `rate` says how many
        frames of a `Chunk` make one. An error of the source is raised after what came before is remembered.
        """
        self.room.require_open()
        return self._watch(pictures(source, fps, self.parts.settings.fps, rate))

    def push(self, frame: Picture, seconds: float) -> list[Watched]:
        """One frame uint8 [H, W, 3]: what was looked at because of it, mostly nothing."""
        picture = checked_picture(frame)
        self.room.require_open()
        number = self.counts.frames
        done: list[Watched] = []
        wants = self.room.keeper.wants
        if wants(number) and self._begins_anew(picture, seconds):
            done += self.flush()
        if wants(number):  # asked again: what was let go may have changed it
            self.pending.append((number, picture, seconds))
        self.counts.frames, self.counts.time = number + 1, seconds
        if len(self.pending) >= self.parts.settings.chunk:
            done += self.flush()
        return done

    def flush(self) -> list[Watched]:
        """Look at the frames that wait for a full chunk, if there are any."""
        if not self.pending:
            return []
        self.room.require_open()
        self._refuse_questions()
        numbers, frames, seconds = zip(*self.pending, strict=True)
        begun = time.perf_counter()
        piece = self.parts.vision.look(np.stack(frames), seconds)
        looked = time.perf_counter()
        with self._turn:
            gone, fed = self.room.take(piece, numbers, self._guide)
        timing = {"vision": looked - begun, "prefill": fed - looked, "memory": time.perf_counter() - fed}
        self.pending.clear()
        eviction = self._log(gone, seconds[-1])
        counts = self.counts
        counts.chunks, counts.looked = counts.chunks + 1, counts.looked + len(frames)
        counts.prefilled += piece.tokens
        tokens = max(self.room.stream.lengths)
        return [Watched(counts.chunks - 1, len(frames), seconds[-1], piece.tokens, tokens, eviction, timing)]

    def ask(
        self, question: str, options: Sequence[str] | None = None, most: int | None = None
    ) -> Iterator[str]:
        """The answer, piece by piece, to a question about what was watched up to the first pull.

        `options` makes it a choice between (A), (B), ...; `most` is how many tokens the answer may take.
        Nothing of it stays in memory; its text guides what is kept later, when it was read to its end.
        """
        self.room.require_open()
        if not self.counts.looked:
            raise UsageError(
                f"Nothing was looked at yet ({len(self.pending)} frames wait for a chunk); pull from "
                "watch(), which is lazy, or flush() before asking."
            )
        settings = self.parts.settings
        put = question
        if options is not None:
            put = settings.choice.replace("{question}", question).replace("{options}", listed(options))
        ids = self.parts.encode(settings.question.replace("{question}", put))
        allowed = settings.answer_tokens if most is None else most
        self._refuse_long(len(ids), allowed)
        return self._answer(question, tuple(options or ()), ids, allowed)

    def fork(self) -> "VideoQASession":
        """The same past with a future of its own, in a pool of its own."""
        self.room.require_open()
        with self._turn:
            return VideoQASession(self.room.copy(), self.told())

    def save(self, path: str | Path) -> None:
        """Write the session to a folder; `VideoQAPipeline.load` goes on with it, in any process."""
        self.room.require_open()
        with self._turn:
            save_session(Path(path), self.room, self.told())

    def told(self) -> Told:
        """All that a session knows besides its tokens."""
        return Told(
            replace(self.counts), list(self.history), list(self.evictions), list(self.pending), self.steer
        )

    @property
    def stats(self) -> QAStats:
        """Frames, tokens, bytes and times at this moment."""
        self.room.require_open()
        return self.room.stats(self.counts, len(self.pending))

    def close(self) -> None:
        """Give every page back; closing twice is harmless."""
        with self._turn:
            self.room.close()
            self.pending.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _watch(self, frames: Generator[tuple[Picture, float]]) -> Iterator[Watched]:
        failure: Exception | None = None
        with closing(frames):
            while True:
                try:
                    frame, seconds = next(frames)
                except StopIteration:
                    break
                except Exception as error:  # of the source: raised once nothing can get lost
                    failure = error
                    break
                yield from self.push(frame, seconds)
        yield from self.flush()
        if failure is not None:
            raise failure

    def _answer(self, question: str, options: tuple[str, ...], ids: list[int], most: int) -> Iterator[str]:
        begun, text, settings = time.perf_counter(), "", self.parts.settings
        with self._turn:
            self._admit()
            past = self.room.stream.fork()
            self._asking += 1
        try:
            said = answer(past, ids, most, settings.repetition_penalty, self.parts.stops)
            for piece in pieces(self._in_turns(said, begun), self.parts.decode):
                text += piece
                yield piece
        finally:
            with self._turn:
                self._asking -= 1
                past.cache.close()
        self.counts.questions += 1
        self.history.append(Exchange(question, text, options, self.counts.time))

    def _in_turns(self, tokens: Iterator[tuple[int, Tensor]], begun: float) -> Iterator[int]:
        """Tokens one by one; between two of them the stream may move on."""
        waiting = True
        while True:
            with self._turn:
                said = next(tokens, None)
            if waiting:
                self.counts.first_token, waiting = time.perf_counter() - begun, False
            if said is None:
                return
            yield said[0]

    def _guide(self) -> dict[Depth, Tensor]:
        """What layers are guided by now: the general texts, and the last question where there was one."""
        question, said = None, ""
        if self.steer and self.history:
            last = self.history[-1]
            question, said = last.question, meant(last.answer, last.options)
        local, mixed, overall = self.parts.settings.guidance.texts(question, said)
        texts: dict[Depth, str] = {"shallow": local, "middle": mixed, "deep": overall}
        return {depth: self.parts.vlm.words(self.parts.encode(text)).embeds for depth, text in texts.items()}

    def _begins_anew(self, picture: Picture, seconds: float) -> bool:
        """A chunk has pictures of one size, and no pause in it that is longer than itself."""
        settings = self.parts.settings
        if not self.pending or len(self.pending) >= settings.chunk:  # full: it could not be watched before
            return bool(self.pending)
        _, before, last = self.pending[-1]
        return before.shape != picture.shape or not 0 <= seconds - last <= settings.chunk / settings.fps

    def _admit(self) -> None:
        self.room.require_open()
        most = max(1, self.room.room.overlap)
        if self._asking >= most:
            raise UsageError(
                f"{self._asking} answers are under way and this session has room for {most}; read them to "
                "their end or close() them, or open(overlap=...) with more."
            )

    def _refuse_questions(self) -> None:
        if self._asking > self.room.room.overlap:
            raise UsageError(
                "An answer is under way, and this session has no room to watch meanwhile; read it to its end "
                "or close() it, or open(overlap=1). The frames wait."
            )

    def _refuse_long(self, question: int, most: int) -> None:
        if most < 1:
            raise UsageError(f"An answer of {most} tokens is none; give at least 1.")
        if question + most > self.room.room.question:
            raise UsageError(
                f"The question has {question} tokens and its answer may take {most}; this session has room "
                f"for {self.room.room.question} together. Ask shorter, or open(room={question + most})."
            )

    def _log(self, gone: Gone | None, seconds: float) -> Eviction | None:
        if gone is None:
            return None
        kept = gone.kept
        eviction = Eviction(
            self.counts.chunks,
            seconds,
            gone.why,
            kept.before,
            kept.after,
            kept.summaries,
            kept.renumbered,
        )
        self.evictions.append(eviction)
        self.counts.evictions += 1
        return eviction
