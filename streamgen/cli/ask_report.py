"""Answers on stdout, as text or JSON lines; chunks to the statistics file; progress on stderr."""

import json
import sys
import time
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, TextIO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from streamgen import __version__
from streamgen.cli.ask_request import AskWish
from streamgen.cli.ask_times import Asking, clock
from streamgen.cli.say import say
from streamgen.cli.streams import typed_at
from streamgen.frames import Reader

if TYPE_CHECKING:
    from streamgen.pipelines.videoqa import VideoQASession, Watched


class Report:
    """What the command tells while it watches; silent on stderr when that is no terminal."""

    def __init__(self, wish: AskWish, stdout: BinaryIO, lines: TextIO | None, reader: Reader) -> None:
        self._wish, self._stdout, self._lines, self._reader = wish, stdout, lines, reader
        self._began = time.perf_counter()
        shown = sys.stderr.isatty() and not wish.asked.quiet and not (wish.typed and typed_at())
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[words]}"),
            console=Console(stderr=True),
            disable=not shown,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, words="loading the model")

    def watched(self, chunk: "Watched") -> None:
        """A chunk was looked at."""
        duration = self._reader.duration
        whole = "" if duration is None else f" of {clock(duration)}"
        words = f"watched {clock(chunk.time)}{whole}, {chunk.tokens} tokens remembered"
        self._progress.update(self._task, words=words)
        if self._lines is not None:
            print(json.dumps(_line(chunk)), file=self._lines, flush=True)

    def answered(self, session: "VideoQASession", asking: Asking) -> None:
        """Ask, and write the answer as it comes."""
        asked, seen = self._wish.asked, session.counts.time
        self._progress.stop()  # it would be drawn over the answer
        if not asked.quiet and not asked.jsonl:
            say(f"{clock(seen)}: {asking.question}")
        began, pieces = time.perf_counter(), []
        for piece in session.ask(asking.question, most=asked.most):
            pieces.append(piece)
            if not asked.jsonl:
                self._stdout.write(piece.encode())
        if asked.jsonl:
            record = self._record(session, asking, "".join(pieces), time.perf_counter() - began)
            self._stdout.write(json.dumps(record, ensure_ascii=False).encode())
        self._stdout.write(b"\n")
        self._progress.start()

    def _record(
        self, session: "VideoQASession", asking: Asking, answer: str, seconds: float
    ) -> dict[str, object]:
        stats, wish = session.stats, self._wish
        return {
            "question": asking.question,
            "answer": answer,
            "at_s": asking.at,
            "seen_s": round(stats.time, 6),
            "first_token_s": None if stats.first_token is None else round(stats.first_token, 6),
            "answer_s": round(seconds, 6),
            "frames": stats.frames,
            "frames_looked_at": stats.looked,
            "frames_dropped": self._reader.dropped,
            "tokens": max(stats.tokens),
            "bytes": stats.bytes_held,
            "evictions": stats.evictions,
            "source": self._reader.source.name,
            "fps": wish.fps,
            "memory": wish.asked.memory,
            "budget": wish.budget,
            "steer": wish.asked.steer,
            "model": wish.asked.model,
            "streamgen": __version__,
        }

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def _line(chunk: "Watched") -> dict[str, object]:
    eviction = None if chunk.eviction is None else asdict(chunk.eviction)
    return {
        "chunk": chunk.index,
        "frames": chunk.frames,
        "time_s": round(chunk.time, 6),
        "prefilled": chunk.prefilled,
        "tokens": chunk.tokens,
        "eviction": eviction,
        "seconds": {name: round(seconds, 6) for name, seconds in chunk.timing.items()},
    }
