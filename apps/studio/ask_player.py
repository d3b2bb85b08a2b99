"""Questions about what a page brings, films or plays: watched frame by frame, answered piece by piece.

Shapes: H height, W width.
"""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgen.cli.ask_times import clock
from streamgen.errors import UsageError
from streamgen.frames import Frame
from streamgen.pipelines.videoqa_memory import StreamLimitError, named

from .ask_sources import FileSights, LiveSights, Sights
from .ledger import pool_record
from .player import Player
from .screen import Picture
from .uploads import upload_of, video_of
from .wire import Words
from .world_player import WorldPlayer

WAITING = 32  # questions that may wait for their time
CAMERA, UPLOAD, WORLD = "camera", "upload", "world"


@dataclass(frozen=True)
class Question:
    """Asked at a second of the video; None is now."""

    number: int
    words: str
    at: float | None


class AskPlayer(Player):
    """One stream that is watched; its memory answers until another is watched or the page leaves."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.session: Any = None
        self.sights: Sights | None = None
        self.paused = False
        self._questions: deque[Question] = deque()
        self._asked = 0
        self._answer: Generator[None] | None = None
        self._budget: int | None = None

    def see(self, picture: NDArray[np.uint8], seconds: float) -> None:
        sights = self.sights
        if not isinstance(sights, LiveSights) or sights.name != CAMERA or sights.ended:
            raise UsageError("This session watches no camera just now; ask it to watch one first.")
        sights.put(picture, seconds)

    def wants(self, now: float) -> float | None:
        if self.session is None:
            return None
        if self._answer is not None or self._ready() is not None:
            return now
        if self.sights is None or self.paused:
            return None
        return now if self.sights.ended else self.sights.due(now)

    def work(self) -> None:
        """A piece of an answer, or a question, or a frame."""
        assert self.session is not None, "wants() was asked"
        if self._answer is not None:
            if next(self._answer, self) is self:
                self._answer = None
            return
        question = self._ready()
        if question is not None:
            self._questions.remove(question)
            self._answer = self._say(question)
        elif self.sights is not None and not self.paused:
            self._look(self.sights)

    def obey(self, words: Words) -> None:
        do = words["do"]
        if do == "watch":
            self._watch(words)
        elif do == "stop":
            self.halt()
        elif self.session is None:
            raise UsageError("Nothing was watched yet; choose a video, the camera or a world first.")
        elif do == "ask":
            self._ask(words["question"].strip(), words.get("at"))
        elif do in ("pause", "resume"):
            self.paused = do == "pause"
            if self.sights is not None:
                self.sights.hold()
        else:
            raise UsageError(f"Questions do not know {do!r}; they know watch, ask, pause, resume and stop.")

    def halt(self) -> None:
        session, self.session = self.session, None
        self._leave_source()
        self._questions.clear()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()  # its fork of the memory gives its pages back
        if session is not None:
            session.close()
            self.screen.clear()
            self.outbox.say("stopped")

    def record(self) -> dict[str, Any]:
        held = [] if self.session is None else [pool_record(self.session.room.pool, "stream")]
        return {"session": self.key[:6], "tab": self.slot.tab, "model": self.slot.name, "pools": held}

    def _watch(self, words: Words) -> None:
        pipeline = self.slot.pipeline
        name = words.get("memory", "hermes")
        budget = words.get("budget") or (None if name == "full" else pipeline.parts.settings.budget)
        memory = named(name, budget)
        pipeline.room(memory)  # what cannot be is refused before the old stream is let go
        sights = self._source(words, pipeline.parts.settings.fps)
        self.halt()
        try:
            self.session = pipeline.open(memory=memory)
        except BaseException:
            sights.close()
            raise
        self.sights, self.paused, self._budget, self._asked = sights, False, budget, 0
        if isinstance(sights, LiveSights) and sights.name == WORLD:
            self._world(words).watchers.append(sights)
        self.screen.clear()
        room = self.session.room
        self.outbox.say(
            "watching",
            source=sights.name,
            memory=name,
            budget=budget,
            room=room.room.video,
            fps=pipeline.parts.settings.fps,
            cache_bytes=pipeline.bytes(memory),
        )

    def _source(self, words: Words, fps: float) -> Sights:
        source = words["source"]
        if source == UPLOAD:
            video = video_of(upload_of(self, words.get("name")))
            return FileSights(video, fps, words.get("pace", "played") == "played", self._clock)
        if source == CAMERA:
            return LiveSights(CAMERA, fps)
        if source == WORLD:
            if self._world(words).branches is None:
                raise UsageError("No world runs in that tab; start it there, then watch it here.")
            return LiveSights(WORLD, fps)
        raise UsageError(f"There is no source {source[:40]!r}; watch an upload, the camera or a world.")

    def _world(self, words: Words) -> WorldPlayer:
        player = self.studio.player(str(words.get("name")))
        if not isinstance(player, WorldPlayer):
            raise UsageError("That session shows no stream that could be watched; name a world or a video.")
        return player

    def _ask(self, question: str, at: float | None) -> None:
        if not question:
            raise UsageError("No question was asked; write one, such as: where is the hero now ?")
        if len(self._questions) >= WAITING:
            raise UsageError(f"{WAITING} questions wait for their time; ask again when some were answered.")
        if at is not None and at < self.session.counts.time:
            raise UsageError(
                f"{clock(at)} has passed: {clock(self.session.counts.time)} was seen. Ask without a time."
            )
        self._asked += 1
        self._questions.append(Question(self._asked, question, at))
        self.outbox.say("asked", number=self._asked, question=question, at=at)

    def _ready(self) -> Question | None:
        """The first question whose time has come."""
        sights, seen = self.sights, self.session.counts
        over = sights is None
        coming = None if sights is None or self.paused else sights.peek()
        for question in self._questions:
            if question.at is None and (seen.frames or over):
                return question
            if question.at is not None and (over or (coming is not None and coming.time > question.at)):
                return question
        return None

    def _look(self, sights: Sights) -> None:
        frame = sights.peek()
        if frame is not None:
            sights.take(frame)
            self._push(frame)
        elif sights.ended:
            self._leave_source()
            self._safely(self.session.flush)
            self.outbox.say("ended", time=self.session.counts.time, why=sights.why)
            self._tell()

    def _push(self, frame: Frame) -> None:
        if self._safely(partial(self.session.push, frame.picture, frame.time)):
            self.screen.put([Picture((frame.picture,), {"time": frame.time})])
        self._tell()

    def _safely(self, work: Callable[[], Any]) -> bool:
        """A memory that forgets nothing may be full: watching ends then, and what was seen can be asked."""
        try:
            work()
        except StreamLimitError as full:
            self._leave_source()
            self.outbox.say("ended", time=self.session.counts.time, why=str(full))
            return False
        return True

    def _say(self, question: Question) -> Generator[None]:
        """A piece a turn; all frames that were shown up to now are looked at first."""
        self._safely(self.session.flush)
        seen = self.session.counts.time
        try:
            _require_seen(question, self.session.counts)
            for piece in self.session.ask(question.words):
                self.outbox.say("piece", number=question.number, text=piece, seen=seen)
                yield
        except UsageError as refusal:
            self.outbox.say("refused", do="ask", why=str(refusal), number=question.number)
            return
        first = self.session.counts.first_token
        self.outbox.say(
            "answered",
            number=question.number,
            seen=seen,
            first_ms=None if first is None else round(1000 * first),
        )
        self._tell()

    def _tell(self) -> None:
        stats, first = self.session.stats, self.session.counts.first_token
        self.outbox.show(
            "seen",
            time=stats.time,
            duration=None if self.sights is None else self.sights.duration,
            frames=stats.frames,
            tokens=max(stats.tokens),
            budget=self._budget,
            cache_bytes=stats.bytes_reserved,
            evictions=stats.evictions,
            first_ms=None if first is None else round(1000 * first),
            kernel=self.session.room.stream.kernel,
            dropped=0 if self.sights is None else self.sights.dropped,
        )

    def _leave_source(self) -> None:
        if self.sights is not None:
            self.sights.close()
            self.sights = None


def _require_seen(question: Question, seen: Any) -> None:
    if not seen.frames:
        raise UsageError("Nothing was seen, so there is nothing to ask about; watch something else.")
    if question.at is not None and question.at > seen.time + 1:
        raise UsageError(
            f"The video ended at {clock(seen.time)}, before {clock(question.at)}; ask without a time."
        )
