"""A recording that is made again from its log, bit for bit, with a timeline to go to any chunk of.

Going back begins again from the start and computes up to the place without showing it: nothing is stored.
Shapes: T frames, H height, W width.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgen.errors import UsageError
from streamgen.pipelines.world_keys import Actions

from .ledger import pool_of, pool_record
from .player import Player
from .readout import Readout
from .recording import digest
from .replay_log import Tape, differs, tape_of
from .screen import Picture
from .tempo import Tempo
from .uploads import log_of, upload_of
from .wire import Words

SLOWEST, FASTEST = 0.25, 16.0  # times the model's own rate


class ReplayPlayer(Player):
    """One log at a time. `chunk` is the next one to be made."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.tape: Tape | None = None
        self.world: Any = None
        self.chunk = 0
        self.paused = False
        self._pipeline: Any = None
        self._event = 0  # the next one of the tape
        self._goal = 0  # chunks before this one are made without being shown
        self._rate = 1.0
        self._same: dict[int, bool] = {}  # by first frame: whether a recorded chunk came out as recorded
        self._tempo: Tempo
        self._readout: Readout

    def wants(self, now: float) -> float | None:
        if self.tape is None or self.world is None or self.chunk >= self.tape.chunks:
            return None
        if self.chunk < self._goal:
            return now
        return None if self.paused else max(now, self._tempo.ready())

    def work(self) -> None:
        """The next event: a prompt, or a chunk. A paused tape shows the one that it went to."""
        assert self.tape is not None and self.world is not None, "wants() was asked"
        event = self.tape.events[self._event]
        self._event += 1
        if not isinstance(event, Actions):
            self.world.set_prompt(event.prompt, event.mode, event.over, event.pin_sink)
            return
        began = time.perf_counter()
        chunk = self.world.step(event)
        self._readout.add(len(chunk.frames), time.perf_counter() - began)
        self._compare(chunk.frames, chunk.start)
        self.chunk += 1
        if self.chunk >= self._goal:
            self._show(
                chunk.frames, {"chunk": chunk.index, "frame": chunk.start, "applied": sorted(event.keys)}
            )
        self._tell()
        if self.chunk == self.tape.chunks:
            self.outbox.say("ended", chunk=self.chunk, **self._verdict())

    def obey(self, words: Words) -> None:
        do = words["do"]
        if do == "open":
            self._open(words)
        elif do == "stop":
            self.halt()
        elif self.tape is None:
            raise UsageError("No recording is open; bring one first.")
        elif do in ("pause", "resume"):
            self.paused = do == "pause"
            self._tempo.anchor()
            if not self.paused and self.chunk >= self.tape.chunks:
                self._go(0, self.tape)
        elif do == "seek":
            self._go(words["chunk"], self.tape)
        elif do == "speed":
            self._speed(words["rate"])
        else:
            raise UsageError(
                f"A recording does not know {do!r}; it knows open, pause, resume, seek, speed and stop."
            )

    def halt(self) -> None:
        world, self.world, self.tape = self.world, None, None
        if world is not None:
            world.close()
            self.screen.clear()
            self.outbox.say("stopped")

    def record(self) -> dict[str, Any]:
        pool = None if self.world is None else pool_of(self.world)
        held = [] if pool is None else [pool_record(pool, "replay")]
        return {"session": self.key[:6], "tab": "replay", "model": self.slot.name, "pools": held}

    def _open(self, words: Words) -> None:
        record = log_of(self._file(words))
        pipeline = self._pipeline_of(record)
        tape = tape_of(record, pipeline)
        self.halt()
        self._pipeline, self.tape = pipeline, tape
        self.paused, self._rate, self._goal, self._same = False, 1.0, 0, {}
        settings = pipeline.parts.video.settings
        self._readout = Readout(settings.fps)
        self._tempo = Tempo(settings.chunk / settings.fps, self._clock)
        try:
            self._begin(tape)
        except BaseException:
            self.halt()
            raise
        start = {name: record[name] for name in ("prompt", "seed", "model", "window", "sink")}
        self.outbox.say(
            "opened", **start, model_fps=settings.fps, chunks=tape.chunks, seen=len(tape.seen),
            timeline=tape.timeline, keys=sorted(pipeline.parts.actions.obeyed), why=differs(record, pipeline),
        )  # fmt: skip

    def _file(self, words: Words) -> Any:
        """An upload of this page, or a recording of another session of the same browser."""
        if "session" not in words:
            return upload_of(self, words["name"])
        files = self.studio.player(words["session"]).files
        if words["name"] not in files:
            raise UsageError("There is no such recording; it goes when its session ends.")
        return files[words["name"]]

    def _pipeline_of(self, record: dict[str, Any]) -> Any:
        """The loaded model that the log names; no other is loaded for a stranger's log."""
        asked = str(record.get("model"))[:80]
        slots = [slot for slot in self.studio.shelf.slots.values() if slot.tab in ("world", "video")]
        for slot in slots:
            if slot.name == asked:
                if slot.pipeline is None:
                    raise UsageError(f"The model {asked} is {slot.state}; open the recording again then.")
                return slot.pipeline
        there = ", ".join(dict.fromkeys(slot.name for slot in slots))
        raise UsageError(
            f"The recording was made with {asked}, and this studio plays {there}; "
            f"start it with --world {asked}."
        )

    def _begin(self, tape: Tape) -> None:
        if self.world is not None:
            self.world.close()
        self.world = None
        self.world = self._pipeline.again(tape.log)
        self.chunk = self._event = 0
        self.screen.clear()
        self._tempo.anchor()
        if self.world.opening is not None and not self._goal:
            self._show(self.world.opening.frames, {"chunk": -1, "frame": 0, "applied": []})

    def _go(self, chunk: int, tape: Tape) -> None:
        if not 0 <= chunk < tape.chunks:
            raise UsageError(f"There is no chunk {chunk}; the recording has {tape.chunks}, counted from 0.")
        self._goal = chunk + 1
        if chunk < self.chunk:
            self._begin(tape)
        self.screen.clear()
        self._tempo.anchor()
        self._tell()

    def _speed(self, rate: float) -> None:
        if not SLOWEST <= rate <= FASTEST:
            raise UsageError(f"{rate:g} times is no speed here; give {SLOWEST:g} to {FASTEST:g}.")
        self._rate = float(rate)
        self._tempo.anchor()

    def _show(self, frames: NDArray[np.uint8], facts: Words) -> None:
        """A chunk [T, H, W, 3], frame by frame."""
        start, seconds = self._tempo.place(len(frames) / self._readout.fps / self._rate)
        count = len(frames)
        self.screen.put(
            [
                Picture(
                    (image,), facts | {"frame": facts["frame"] + number}, start + number * seconds / count
                )
                for number, image in enumerate(frames)
            ]
        )

    def _compare(self, frames: NDArray[np.uint8], start: int) -> None:
        assert self.tape is not None, "something is open"
        if start in self.tape.seen:
            self._same[start] = self.tape.seen[start] == digest(frames)

    def _verdict(self) -> Words:
        """How many recorded chunks were made again, and how many of them are the same in every bit."""
        return {"compared": len(self._same), "equal": sum(self._same.values())}

    def _tell(self) -> None:
        pool = pool_of(self.world)
        self.outbox.show(
            "readout",
            **self._readout.record(),
            **self._verdict(),
            chunk=self.chunk,
            goal=self._goal if self.chunk < self._goal else None,
            lead=round(self._tempo.lead, 2),
            cache_bytes=0 if pool is None else pool.pages.total * pool.geometry.page_bytes,
            kernel=self.world.kernel,
            dropped=self.screen.dropped,
        )
