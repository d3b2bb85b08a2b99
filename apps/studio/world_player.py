"""A world in a page: it obeys keys and words, can be forked into two on one clock, undone, and recorded.

Shapes: T frames of a chunk, H height, W width.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgen.errors import UsageError
from streamgen.pipelines.control import HeldKeys

from .ask_sources import LiveSights
from .branches import Branches
from .ledger import pool_record
from .openings import facts_of, start_picture
from .player import Player
from .readout import Readout
from .recording import Recording
from .screen import Picture
from .shelf import Slot
from .tempo import Tempo
from .wire import Words

SILENCE = 0.5  # seconds without a heartbeat of the page after which keys are let go; networks jitter
SEEDS = 2**31
Pixels = NDArray[np.uint8]


class WorldPlayer(Player):
    """Everything of one page's world; `Branches` are its sessions."""

    def __init__(
        self,
        slot: Slot,
        folder: Path,
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(slot, folder, on_change, clock)
        self.keys = HeldKeys(silence=SILENCE)
        self.branches: Branches | None = None
        self.paused = False
        self.recording: Recording | None = None
        self.watchers: list[LiveSights] = []  # sessions that ask about it
        self._lasts: deque[tuple[Pixels, ...]] = deque()  # the last image [H, W, 3] of each chunk, for undo
        self._tempo: Tempo
        self._readout: Readout

    def wants(self, now: float) -> float | None:
        if self.branches is None or self.paused:
            return None
        return max(now, self._tempo.ready())

    def work(self) -> None:
        """One chunk of every branch."""
        assert self.branches is not None, "wants() was asked"
        actions, _, since = self.keys.take()
        given = self.branches.first.parts.actions.obeys(actions)
        moved = bool(given.keys) or any(given.mouse)
        began = time.perf_counter()
        chunks = self.branches.step(given, since)
        self._readout.add(len(chunks[0].frames), time.perf_counter() - began)
        if moved:
            self._readout.input_to_frame = chunks[0].timing["input_to_frame"]
        if self.recording is not None:
            self.recording.add(chunks[0].frames, chunks[0].start)
        self.watchers = [watcher for watcher in self.watchers if not watcher.ended]
        for watcher in self.watchers:
            watcher.put_chunk(chunks[0].frames, self._readout.fps)
        facts = {"chunk": chunks[0].index, "frame": chunks[0].start, "applied": sorted(given.keys)}
        self._show([chunk.frames for chunk in chunks], facts, since if moved else None)
        self._tell()

    def obey(self, words: Words) -> None:
        do = words["do"]
        orders: dict[str, Callable[[Branches, Words], None]] = {
            "prompt": self._prompt,
            "pause": self._pause,
            "resume": self._pause,
            "undo": self._undo,
            "fork": self._fork,
            "keep": self._keep,
            "reset": self._reset,
            "record": self._record,
            "stop": lambda branches, words: self.halt(),
        }
        if do == "start":
            self._start(words)
        elif do not in orders:
            raise UsageError(f"A world does not know {do!r}; it knows start, {', '.join(orders)}.")
        elif self.branches is None:
            raise UsageError(f"Nothing is running, so {do!r} has nothing to act on; start a world first.")
        else:
            orders[do](self.branches, words)

    def hear(self, words: Words) -> bool:
        do, keys = words["do"], self.keys
        if do == "alive":
            keys.alive()
        elif do == "down":
            keys.press(words["key"])
        elif do == "up":
            keys.release(words["key"])
        elif do == "mouse":
            keys.move(float(words.get("x", 0)), float(words.get("y", 0)))
        return do in ("alive", "down", "up", "mouse")

    def saw(self, picture: Picture) -> None:
        if picture.since is not None:
            self._readout.input_to_shown = time.perf_counter() - picture.since

    def halt(self) -> None:
        branches, self.branches = self.branches, None
        if branches is None:
            return
        try:
            self._finish_recording(branches)
        finally:
            branches.close()
            self._forget()
            for watcher in self.watchers:
                watcher.end("The stream that was watched has ended.")
        self.outbox.say("stopped")

    def close(self) -> None:
        if self.recording is not None:
            self.recording.close()
            self.recording = None
        super().close()

    def record(self) -> dict[str, Any]:
        pools = [] if self.branches is None else self.branches.pools
        held = [pool_record(pool, ("first", "fork")[number]) for number, pool in enumerate(pools)]
        return {"session": self.key[:6], "tab": self.slot.tab, "model": self.slot.name, "pools": held}

    def _start(self, words: Words) -> None:
        pipeline, prompt = self.slot.pipeline, words["prompt"]
        seed = words.get("seed", secrets.randbelow(SEEDS))
        image = start_picture(self, words)
        pipeline.request(prompt, image, seed)  # what cannot be is refused before the old world is closed
        self.halt()
        world = pipeline.start(prompt, image, seed)
        settings = world.parts.video.settings
        self.branches, self.paused = Branches(world), False
        self._readout = Readout(settings.fps)
        self._tempo = Tempo(settings.chunk / settings.fps, self._clock)
        self.outbox.say("started", prompt=prompt, seed=seed, **facts_of(world))
        if world.opening is not None:
            self._show([world.opening.frames], {"chunk": -1, "frame": 0, "applied": []}, None)

    def _show(self, branches: Sequence[Pixels], facts: dict[str, Any], since: float | None) -> None:
        """Chunks [T, H, W, 3] of all branches, frame by frame; `since` is when their keys were pressed."""
        assert self.branches is not None, "something runs"
        count = len(branches[0])
        start, seconds = self._tempo.place(count / self._readout.fps)
        self._lasts.append(tuple(frames[-1] for frames in branches))
        while len(self._lasts) > self.branches.first.request.undo + 1:
            self._lasts.popleft()
        self.screen.put(
            [
                Picture(
                    images,
                    facts | {"frame": facts["frame"] + number},
                    start + number * seconds / count,
                    since if number == 0 else None,
                )
                for number, images in enumerate(zip(*branches, strict=True))
            ]
        )

    def _tell(self) -> None:
        assert self.branches is not None, "something runs"
        pools = self.branches.pools
        self.outbox.show(
            "readout",
            **self._readout.record(),
            lead=round(self._tempo.lead, 2),
            cache_bytes=sum(pool.pages.total * pool.geometry.page_bytes for pool in pools),
            kernel=self.branches.first.kernel,
            undoable=self.branches.undoable,
            dropped=self.screen.dropped,
            recorded=None if self.recording is None else self.recording.frames,
        )

    def _forget(self) -> None:
        """What was shown or is to be shown is of the past."""
        self._lasts.clear()
        self.screen.clear()
        self._tempo.anchor()

    def _prompt(self, branches: Branches, words: Words) -> None:
        for number in branches.numbered(words.get("branch")):
            receipt = branches.worlds[number].set_prompt(
                words["text"], words.get("mode"), words.get("over", 1), words.get("pin_sink", True)
            )
            at = round(receipt.frame / self._readout.fps, 2)
            self.outbox.say("receipt", **vars(receipt), branch=number, at=at)

    def _pause(self, branches: Branches, words: Words) -> None:
        self.paused = words["do"] == "pause"
        self._tempo.anchor()

    def _undo(self, branches: Branches, words: Words) -> None:
        branches.undo()
        self.screen.clear()
        self._lasts.pop()
        self._tempo.anchor()
        moment = branches.first.moment
        self._unrecord(moment.frame)
        self.outbox.say("undone", chunk=moment.index, undoable=branches.undoable)
        if self._lasts:
            facts = {"chunk": moment.index - 1, "frame": moment.frame - 1, "applied": []}
            self.screen.put([Picture(self._lasts[-1], facts)])

    def _fork(self, branches: Branches, words: Words) -> None:
        branches.fork()
        self._forget()
        self.outbox.say("forked", chunk=branches.first.moment.index)

    def _keep(self, branches: Branches, words: Words) -> None:
        branches.keep(words["branch"])
        self._forget()
        if words["branch"]:
            self._unrecord(0)  # the left world was recorded, and its log went with it
        self.outbox.say("kept", branch=words["branch"], prompt=branches.first.moment.prompt)

    def _reset(self, branches: Branches, words: Words) -> None:
        branches.keep(0)
        branches.first.reset()
        self._forget()
        self._unrecord(0)
        request = branches.first.request
        self.outbox.say("was reset", prompt=request.prompt, seed=request.seed)

    def _record(self, branches: Branches, words: Words) -> None:
        if self.recording is not None:
            self._finish_recording(branches)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recording = Recording(self.folder, len(self.files) // 2 + 1, self._readout.fps)
        self.outbox.say("recording")

    def _unrecord(self, start: int) -> None:
        if self.recording is not None:
            self.recording.undone(start)

    def _finish_recording(self, branches: Branches) -> None:
        recording, self.recording = self.recording, None
        if recording is None:
            return
        if not recording.frames:
            recording.close()
            self.outbox.say("refused", do="record", why="No chunk was made since the recording began.")
            return
        recording.finish(branches.first.log.record())
        new = {path.name: path for path in (recording.video, recording.log)}
        self.files |= new
        self.outbox.say("recorded", frames=recording.frames, files=list(new), session=self.key)
