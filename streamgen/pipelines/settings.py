"""What a checkpoint says of itself in `streamgen.json`: facts that have no default.

Sizes are (width, height) in pixels; window and sink are latent frames.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

from streamgen.errors import UsageError

FILE = "streamgen.json"
MOST_STEPS = 1000  # entries of the table that the times come from


@dataclass(frozen=True)
class VideoSettings:
    """How a causal video checkpoint was trained to stream."""

    fps: float
    size: tuple[int, int]
    chunk: int  # latent frames made at a time
    window: int | None  # last latent frames that are remembered, those being made included; None = all
    sink: int  # first latent frames that are remembered for ever, besides the window
    independent_first_frame: bool  # the first chunk is one frame
    context_noise: float  # time of the clean pass
    shift: float
    steps: tuple[float, ...]
    warp: bool
    prediction: Literal["flow_prediction", "sample"]
    sampler: Literal["renoise", "euler"]  # fresh noise each step, or the noise it came from
    planes: tuple[Literal["y", "x"], ...]  # constant coordinates after the latent channels
    text_length: int
    positions: Literal["absolute", "window"]

    def __post_init__(self) -> None:
        if self.fps <= 0 or self.chunk < 1 or self.text_length < 1 or min(self.size) < 1 or self.sink < 0:
            raise UsageError(
                f"fps {self.fps}, chunk {self.chunk}, text_length {self.text_length}, size {list(self.size)} "
                f"and sink {self.sink} describe no stream; give at least 1 each, and a sink of at least 0."
            )
        if self.positions not in ("absolute", "window"):
            raise UsageError(f"Positions are 'absolute' or 'window', not '{self.positions}'.")
        if set(self.planes) - {"y", "x"}:
            raise UsageError(f"Planes are 'y' and 'x', not {list(self.planes)}.")
        if self.window is None and self.positions == "window":
            raise UsageError(
                "Positions that are renumbered in the window need a window; give its latent frames."
            )
        if self.window is not None and self.window < self.chunk:
            raise UsageError(
                f"A window of {self.window} latent frames cannot hold a chunk of {self.chunk}; widen it."
            )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `streamgen.json` of a checkpoint folder."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise UsageError(
                f"{folder} has no {FILE}, which says how the checkpoint streams (chunk, steps, window); "
                "add one beside transformer/ and vae/."
            )
        facts = json.loads(path.read_text())
        kind = facts.pop("pipeline", None)
        if kind != "video":
            raise UsageError(f"{path} describes a {kind!r} checkpoint; this pipeline streams 'video'.")
        return cls.of(facts, str(path))

    @classmethod
    def of(cls, facts: dict[str, Any], source: str = FILE) -> Self:
        """From the entries of a `streamgen.json`; each one has to be there, and no other."""
        names = {field.name for field in fields(cls)}
        wrong = [f"lacks {', '.join(sorted(names - facts.keys()))}"] if names - facts.keys() else []
        wrong += [f"has unknown {', '.join(sorted(facts.keys() - names))}"] if facts.keys() - names else []
        if wrong:
            raise UsageError(f"{source} {' and '.join(wrong)}; its entries are {', '.join(sorted(names))}.")
        settled: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in facts.items()}
        return cls(**settled)

    def few_steps(self, count: int) -> tuple[float, ...]:
        """`count` steps spread evenly over the trained ones: all of them where the number is the same."""
        if count < 1:
            raise UsageError(f"{count} steps denoise nothing; give at least 1.")
        if count > MOST_STEPS:
            raise UsageError(f"{count} steps are finer than the trained times; give at most {MOST_STEPS}.")
        if self.steps[-1] == 0 or count == len(self.steps):
            return self._as_trained(count)
        curve = [*self.steps, 0.0]
        places = [index * len(self.steps) / count for index in range(count)]
        steps = [_between(curve, place) for place in places]
        return tuple(float(round(step)) for step in steps) if self.warp else tuple(steps)

    def _as_trained(self, count: int) -> tuple[float, ...]:
        if count != len(self.steps):
            raise UsageError(
                f"This checkpoint ends its steps at time 0, so it takes {len(self.steps)}; leave steps out."
            )
        return self.steps


def _between(curve: list[float], place: float) -> float:
    left = int(place)
    return curve[left] + (place - left) * (curve[left + 1] - curve[left])
