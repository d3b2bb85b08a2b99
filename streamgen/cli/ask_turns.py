"""What happens next while a video is watched: another frame, or a question whose time has come.

A question of time T is answered from the frames that are shown up to T: the frames that wait for a full
chunk are looked at first.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from streamgen.cli.ask_stdin import LiveQuestions
from streamgen.cli.ask_times import Asking, clock
from streamgen.errors import StreamgenError, UsageError
from streamgen.frames import Frame, Reader, ReadError

if TYPE_CHECKING:
    from streamgen.pipelines.videoqa import VideoQASession, Watched

_LOOK = 0.1  # seconds between two looks at whether somebody typed something


class Plan:
    """Questions that wait: for a time, for the next moment, or for the end."""

    def __init__(self, askings: Iterable[Asking], live: bool, prompt: bool) -> None:
        self.timed: deque[Asking] = deque()
        self.now: deque[Asking] = deque()
        self.last: deque[Asking] = deque()
        self.asked = False  # whether any question came at all
        self._prompt = prompt  # whoever types is waiting, so that is answered at once
        self._live = live
        self.add(askings, typed=False)

    @property
    def waiting(self) -> bool:
        return bool(self.timed or self.now or self.last)

    def add(self, askings: Iterable[Asking], typed: bool) -> None:
        """Put questions where they wait."""
        for asking in askings:
            self.asked = True
            if asking.at is not None:
                self.timed = deque(sorted([*self.timed, asking], key=lambda other: other.at or 0.0))
            elif self._live or (typed and self._prompt):
                self.now.append(asking)
            else:
                self.last.append(asking)

    def due(self, time: float) -> Iterator[Asking]:
        """Questions about what was shown before the frame of this time."""
        while self.timed and (self.timed[0].at or 0.0) < time:
            yield self.timed.popleft()


def turns(
    session: "VideoQASession", reader: Reader, plan: Plan, typed: LiveQuestions | None
) -> "Iterator[Watched | Asking]":
    """Chunks that were watched, and questions to be answered before the next pull.

    What goes wrong with the source, or a memory that is full, is raised after the questions that could
    still be answered.
    """
    from streamgen.pipelines.videoqa_memory import StreamLimitError

    failure: StreamgenError | None = None
    try:
        yield from _watching(session, reader, plan, typed)
        yield from session.flush()
    except ReadError as error:
        failure = error
        yield from session.flush()
    except StreamLimitError as error:
        failure = error
    yield from _at_the_end(session, reader, plan)
    if failure is not None:
        raise failure
    if typed is not None:
        yield from _afterwards(plan, typed)
    _refuse_what_was_not_asked(plan, session)


def _watching(
    session: "VideoQASession", reader: Reader, plan: Plan, typed: LiveQuestions | None
) -> "Iterator[Watched | Asking]":
    """Until the source ends, or nobody has anything more to ask."""
    while plan.waiting or (typed is not None and typed.open):
        if typed is not None:
            plan.add(typed.take(), typed=True)
        while plan.now and session.counts.frames:
            yield from session.flush()
            yield plan.now.popleft()
        if not reader.waiting(_LOOK):
            continue
        frame = next(reader, None)
        if frame is None:
            return
        # Of a live source the first frames pass while the model is loaded: what was due is asked at the next.
        for asking in plan.due(frame.time) if session.counts.frames or not reader.live else ():
            _require_something_seen(session, asking, frame)
            yield from session.flush()
            yield asking
        yield from session.push(frame.picture, frame.time)


def _at_the_end(session: "VideoQASession", reader: Reader, plan: Plan) -> Iterator[Asking]:
    over = max(reader.duration or 0.0, session.counts.time)
    while plan.timed and (plan.timed[0].at or 0.0) <= over:
        yield plan.timed.popleft()
    for waiting in (plan.now, plan.last):
        while waiting:
            yield waiting.popleft()


def _afterwards(plan: Plan, typed: LiveQuestions) -> Iterator[Asking]:
    """The video is over; the memory of it is there for as long as somebody asks."""
    while typed.open:
        for asking in typed.take():
            plan.asked = True
            yield asking
        typed.wait(_LOOK)


def _require_something_seen(session: "VideoQASession", asking: Asking, first: Frame) -> None:
    if not session.counts.frames:
        raise UsageError(
            f"A question was to be asked at {clock(asking.at or 0.0)}, and the first picture that is watched "
            f"comes at {clock(first.time)}; ask then or later."
        )


def _refuse_what_was_not_asked(plan: Plan, session: "VideoQASession") -> None:
    if plan.timed:
        times = ", ".join(clock(asking.at or 0.0) for asking in plan.timed)
        raise StreamgenError(
            f"The video ended at {clock(session.counts.time)}, before the time of a question: {times}."
        )
    if not plan.asked:
        raise UsageError("No question came on standard input; give one a line.")
