"""A world's chunk, its input-to-frame latency, and what switches, forks, undo and files cost, in one run.

Included: wall seconds inside the session, decoding in them. Not included: loading, the first chunks, display.
The rival re-encodes its history: before each chunk it computes the memory again from the kept latents.
"""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import streamgen as sg

PROMPTS = ("a hero", "a hero walks")
INCLUDED = "wall seconds inside the session, decoding in them; loading and the first chunks are not in it"


@dataclass(frozen=True)
class Result:
    """Medians over the rounds; steps alternate with those of the rival."""

    model: str
    chunks: int
    frames_per_s: float
    step_s: float
    input_to_frame_s: float
    reencoding_step_s: float
    switches: dict[str, dict[str, float]]  # mode -> seconds, forwards, tokens
    fork_s: float
    fork_bytes: int  # taken before the branches part
    fork_step_s: float  # the first step of a fork, which moves it into a ring of its own
    part_bytes: int
    undo_s: float
    save_s: float
    save_bytes: int

    @property
    def against_reencoding(self) -> float:
        return self.reencoding_step_s / self.step_s

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "against_reencoding": self.against_reencoding, "included": INCLUDED}


def run(json_output: bool = False, model: str = "tiny-world", chunks: int = 20) -> None:
    """Measure and print."""
    result = measure(model, chunks)
    print(json.dumps(result.record(), indent=2) if json_output else _table(result))


def measure(model: str, chunks: int) -> Result:
    """One session and its rival, in turns; then everything else on the session, with its window full."""
    pipe = sg.WorldPipeline.from_pretrained(model)
    arena = pipe.parts.video.arena
    with pipe.start(PROMPTS[0]) as world, pipe.start(PROMPTS[0]) as rival:
        for _ in range(world.request.window + world.request.sink + 1):
            world.step()
            rival.step()
        steps, latencies, reencoded, frames = [], [], [], 0
        for _ in range(chunks):
            seconds, chunk = _timed(world.step)
            steps.append(seconds)
            latencies.append(chunk.timing["input_to_frame"])
            frames += len(chunk.frames)
            renewing, _ = _timed(lambda: rival.set_prompt(PROMPTS[0], mode="window", pin_sink=False))
            reencoded.append(renewing + _timed(rival.step)[0])
        switches = {mode: _switch(world, mode) for mode in ("none", "last", "window", "cut")}
        for _ in range(world.request.window + world.request.sink + 1):
            world.step()
        held = arena.held
        forking, branch = _timed(world.fork)
        fork_bytes = arena.held - held
        parting, _ = _timed(branch.step)
        part_bytes = arena.held - held
        branch.close()
        world.step()
        undoing, _ = _timed(world.undo)
        with tempfile.TemporaryDirectory() as folder:
            saving, _ = _timed(lambda: world.save(Path(folder) / "world"))
            save_bytes = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    step = median(steps)
    return Result(
        model=model,
        chunks=chunks,
        frames_per_s=frames / sum(steps),
        step_s=step,
        input_to_frame_s=median(latencies),
        reencoding_step_s=median(reencoded),
        switches=switches,
        fork_s=forking,
        fork_bytes=fork_bytes,
        fork_step_s=parting,
        part_bytes=part_bytes,
        undo_s=undoing,
        save_s=saving,
        save_bytes=save_bytes,
    )


def _switch(world: Any, mode: str) -> dict[str, float]:
    receipts = [world.set_prompt(PROMPTS[turn % 2], mode=mode) for turn in range(1 if mode == "cut" else 3)]
    seconds = median(receipt.seconds for receipt in receipts)
    return {"seconds": seconds, "forwards": receipts[0].forwards, "tokens": receipts[0].tokens}


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def _table(result: Result) -> str:
    rows = [
        ("a chunk", f"{result.step_s * 1e3:.1f} ms, {result.frames_per_s:.1f} frames/s"),
        ("input to frame", f"{result.input_to_frame_s * 1e3:.1f} ms"),
        ("a chunk, history re-encoded", f"{result.reencoding_step_s * 1e3:.1f} ms"),
        ("so it is faster by", f"{result.against_reencoding:.2f}"),
        *(
            (
                f"a switch, {mode}",
                f"{cost['seconds'] * 1e3:.1f} ms, {cost['forwards']} forwards, {cost['tokens']} tokens",
            )
            for mode, cost in result.switches.items()
        ),
        ("a fork", f"{result.fork_s * 1e3:.2f} ms, {result.fork_bytes} bytes"),
        ("its first chunk", f"{result.fork_step_s * 1e3:.2f} ms, {result.part_bytes} bytes"),
        ("an undo", f"{result.undo_s * 1e3:.2f} ms"),
        ("a save", f"{result.save_s * 1e3:.2f} ms, {result.save_bytes} bytes"),
    ]
    return "\n".join(f"{name:<28} {value}" for name, value in rows) + f"\nIncluded: {INCLUDED}."
