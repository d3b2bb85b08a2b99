"""Watch what was asked for and answer, or say what that would take."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from streamgen.cli import backend
from streamgen.cli.ask_report import Report
from streamgen.cli.ask_request import AskWish
from streamgen.cli.ask_stdin import LiveQuestions
from streamgen.cli.ask_times import Asking, clock
from streamgen.cli.ask_turns import Plan, turns
from streamgen.cli.output import reserved_stdout
from streamgen.cli.say import say
from streamgen.cli.streams import typed_at
from streamgen.errors import UsageError
from streamgen.frames import Reader, read

if TYPE_CHECKING:
    from streamgen.pipelines.videoqa import VideoQAPipeline
    from streamgen.pipelines.videoqa_memory import Memory

DONE = 0


def dry(wish: AskWish) -> int:
    """Print the settled wish and its memory as JSON."""
    with reserved_stdout(), _opened(wish) as reader:
        pipeline, duration = load(wish), reader.duration
        memory = memory_of(wish)
        room = pipeline.room(memory)
        weights = sum(weight.nbytes for weight in pipeline.parts.vlm.model.parameters())
    record = {
        "source": reader.source.name,
        "duration_s": duration,
        "live": reader.live,
        "questions": [vars(asking) for asking in wish.plan],
        "model": wish.asked.model,
        "memory": wish.asked.memory,
        "budget": wish.budget,
        "fps": wish.fps,
        "chunk": wish.settings.chunk,
        "tokens": {
            "prompt": room.prompt,
            "video": room.video,
            "chunk": pipeline.parts.vision.most_tokens(wish.settings.chunk),
            "question": room.question,
        },
        "memory_bytes": {"weights": weights, "cache": pipeline.bytes(memory)},
    }
    print(json.dumps(record, indent=2, ensure_ascii=False))
    return DONE


def answer(wish: AskWish) -> int:
    """Watch, and answer each question at its time."""
    began = time.perf_counter()
    with reserved_stdout() as stdout, _opened(wish) as reader, _lines(wish.asked.stats) as lines:
        with Report(wish, stdout, lines, reader) as report:
            pipeline = load(wish)
            memory = memory_of(wish)
            with backend.refusals(wish.asked.attention):
                session = pipeline.open(memory=memory, steer=wish.asked.steer, room=_room(wish, pipeline))
            if not wish.asked.quiet:
                say(_headline(wish, reader))
            typed = LiveQuestions() if wish.typed else None
            plan = Plan(wish.plan, reader.live, wish.typed and typed_at())
            with session:
                for turn in turns(session, reader, plan, typed):
                    if isinstance(turn, Asking):
                        report.answered(session, turn)
                    else:
                        report.watched(turn)
                counts = session.counts
        if not wish.asked.quiet:
            say(_ending(wish, reader, counts.frames, counts.questions, time.perf_counter() - began))
    return DONE


def load(wish: AskWish) -> "VideoQAPipeline":
    """The model, on its device."""
    backend.quieten_libraries()
    import torch

    from streamgen.pipelines.videoqa import VideoQAPipeline

    device = backend.pick_device(wish.device)
    with backend.refusals(wish.asked.attention):
        return VideoQAPipeline.from_pretrained(
            wish.folder,
            memory=memory_of(wish),
            device=device,
            dtype=None if wish.dtype is None else getattr(torch, wish.dtype),
            attention=wish.asked.attention,
        )


def memory_of(wish: AskWish) -> "Memory":
    """The memory by its name, with its budget."""
    from streamgen.pipelines.videoqa_memory import named

    return named(wish.asked.memory, wish.budget)


def _opened(wish: AskWish) -> Reader:
    """The source, with a frame of it there, before any weight is loaded."""
    reader = read(
        wish.source,
        fps=wish.fps,
        start=wish.start,
        end=wish.end,
        timeout=wish.asked.timeout,
        skip_damage=True if wish.asked.skip_damage else None,
    ).ready()
    _check_times(wish, reader)
    return reader


def _check_times(wish: AskWish, reader: Reader) -> None:
    duration = reader.duration
    late = [
        asking.at for asking in wish.plan if asking.at is not None and asking.at > (duration or asking.at)
    ]
    if duration is not None and late:
        raise UsageError(
            f"--at {clock(late[0])} is past the end of the video, which lasts {clock(duration)}."
        )
    if duration is not None and wish.start is not None and wish.start >= duration:
        raise UsageError(
            f"--start {clock(wish.start)} is past the end of the video, which lasts {clock(duration)}."
        )


def _room(wish: AskWish, pipeline: "VideoQAPipeline") -> int | None:
    """Tokens of a question and its answer: more than usual where longer answers were asked for."""
    if wish.asked.most is None:
        return None
    return pipeline.room(memory_of(wish)).question - wish.settings.answer_tokens + wish.asked.most


def _headline(wish: AskWish, reader: Reader) -> str:
    length = "live" if reader.live else "of unsaid length"
    if reader.duration is not None and not reader.live:
        length = clock(reader.duration)
    budget = "everything" if wish.budget is None else f"{wish.budget} video tokens a layer"
    memory = f"memory {wish.asked.memory}, {budget}"
    return f"{wish.asked.model} watches {reader.source.name} ({length}) at {wish.fps:g} fps; {memory}."


def _ending(wish: AskWish, reader: Reader, frames: int, questions: int, seconds: float) -> str:
    dropped = f", {reader.dropped} more came too fast" if reader.dropped else ""
    damaged = f", {reader.tally.damaged} damaged places passed over" if reader.tally.damaged else ""
    answers = "1 answer" if questions == 1 else f"{questions} answers"
    seen = "1 frame" if frames == 1 else f"{frames} frames"
    return f"{answers} from {seen}{dropped}{damaged} in {seconds:.1f} s, loading included."


def _lines(stats: str | None) -> AbstractContextManager[TextIO | None]:
    return nullcontext() if stats is None else Path(stats).open("w", encoding="utf-8")
