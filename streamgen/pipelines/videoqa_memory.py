"""What a session remembers of a stream: the memories that can be compared, and the room that each needs.

Sizes are tokens of one layer. Nothing here knows a model.
"""

from dataclasses import dataclass

import torch

from streamgen.errors import StreamgenError, UsageError
from streamgen.kv.geometry import Geometry
from streamgen.kv.hierarchical import Hierarchical, Numbering
from streamgen.models.vlm import StreamingVLM

PAGE = 16  # tokens
NAMES = ("hermes", "window", "uniform", "full")


class StreamLimitError(StreamgenError):
    """A memory that forgets nothing is full."""


@dataclass(frozen=True)
class Window:
    """The prompt and the last `budget` video tokens."""

    budget: int
    positions: Numbering = "lazy"

    def __post_init__(self) -> None:
        _require_budget(self.budget)


@dataclass(frozen=True)
class Uniform:
    """Frames spread evenly over all that was watched, as many as fit in `budget` video tokens."""

    budget: int
    positions: Numbering = "lazy"

    def __post_init__(self) -> None:
        _require_budget(self.budget)


@dataclass(frozen=True)
class Full:
    """Everything, up to `budget` video tokens; None is as many as the model has positions for."""

    budget: int | None = None

    def __post_init__(self) -> None:
        if self.budget is not None:
            _require_budget(self.budget)


Memory = Hierarchical | Window | Uniform | Full


def named(name: str, budget: int | None) -> Memory:
    """The memory of this name; all but `full` need a budget."""
    if name not in NAMES:
        raise UsageError(f"There is no memory {name!r}; choose one of {', '.join(NAMES)}.")
    if name == "full":
        return Full(budget)
    if budget is None:
        raise UsageError(f"The memory {name!r} needs a budget: how many video tokens each layer keeps.")
    return {"hermes": Hierarchical, "window": Window, "uniform": Uniform}[name](budget)


def name_of(memory: Memory) -> str:
    kinds = {Hierarchical: "hermes", Window: "window", Uniform: "uniform", Full: "full"}
    return kinds[type(memory)]


@dataclass(frozen=True)
class Room:
    """How many tokens a session may hold in each layer, and the pages that takes."""

    prompt: int
    video: int  # between two chunks
    chunk: int
    question: int  # with its answer
    overlap: int  # answers that may be under way while the stream moves on

    @classmethod
    def of(cls, memory: Memory, prompt: int, chunk: int, question: int, overlap: int, limit: int) -> "Room":
        """What a memory needs on a model of `limit` positions; refused where it cannot fit."""
        most = limit - prompt - question
        if isinstance(memory, Full):
            video = most if memory.budget is None else memory.budget
            room = cls(prompt, video, 0, question, overlap)
        else:
            room = cls(prompt, memory.budget, chunk, question, overlap)
        if room.video < 1 or room.video + room.chunk > most:
            raise UsageError(
                f"A memory of {room.video} video tokens, with {prompt} of the prompt, {room.chunk} of a "
                f"chunk and {question} for a question, does not fit {limit} positions; "
                f"keep at most {max(0, most - room.chunk)} video tokens, or take smaller chunks."
            )
        return room

    @property
    def stream(self) -> int:
        """Tokens of a layer at the fullest moment, when a chunk has come and nothing has gone."""
        return self.prompt + self.video + self.chunk

    def pages(self, layers: int, size: int = PAGE) -> int:
        """Pages of all layers: the stream, its questions, and what they stop sharing when it moves on."""
        answers = max(1, self.overlap) * (-(-self.question // size) + 1)
        parted = self.overlap * -(-(self.prompt + self.video) // size)
        return layers * (-(-self.stream // size) + 1 + answers + parted)


def geometry(vlm: StreamingVLM, dtype: torch.dtype) -> Geometry:
    """One table a layer: layers keep different tokens."""
    return Geometry(vlm.layers, vlm.kv_heads, vlm.head_dim, PAGE, dtype, layers_per_page=1)


def _require_budget(budget: int) -> None:
    if budget < 1:
        raise UsageError(f"A budget of {budget} video tokens remembers nothing; give at least a frame's.")
