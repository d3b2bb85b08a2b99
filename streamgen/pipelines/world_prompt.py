"""What a new prompt does to a running world, and the receipt for it.

none: the text only, history still shows the old prompt.   last: the last block is computed again under the
new text.   window: everything remembered is, with the sink pinned or renewed.   cut: the memory is forgotten.
A transition (over > 1) blends the text over some chunks and renews no memory.
Shapes: C latent channels, n latent frames, h and w latent size, N text rows, D text dim.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from streamgen.errors import UsageError

Mode = Literal["none", "last", "window", "cut"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class Switch:
    """One change of the prompt, as asked for."""

    prompt: str
    mode: Mode
    over: int = 1
    pin_sink: bool = True

    @classmethod
    def of(cls, prompt: str, mode: Mode | None, over: int, pin_sink: bool) -> "Switch":
        """Fill in the mode: `last`, or `none` for a transition; refuse what contradicts itself."""
        if over < 1:
            raise UsageError(f"over={over} chunks is no transition; give 1 for a switch at once.")
        chosen: Mode = mode or ("none" if over > 1 else "last")
        if chosen not in MODES:
            raise UsageError(f"There is no mode {chosen!r}; choose one of {', '.join(MODES)}.")
        if over > 1 and chosen != "none":
            raise UsageError(
                f"A transition over {over} chunks renews no memory, and mode={chosen!r} does; "
                "leave mode out, or switch at once with over=1."
            )
        if not pin_sink and chosen != "window":
            raise UsageError(f"pin_sink=False belongs to mode='window'; mode={chosen!r} has no use for it.")
        return cls(prompt, chosen, over, pin_sink)


@dataclass(frozen=True)
class Receipt:
    """Where a prompt took effect and what that cost."""

    number: int  # of the receipt, from 0 in this session
    prompt: str
    mode: Mode
    over: int
    chunk: int  # the first one made under it
    frame: int  # its first frame
    forwards: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Transition:
    """From one text [1, N, D] to another, `done` of `over` chunks."""

    start: Tensor
    end: Tensor
    over: int
    done: int = 0

    @property
    def embeds(self) -> Tensor:
        """The text of the chunk number `done`."""
        share = self.done / self.over
        return self.end if self.done >= self.over else self.start + share * (self.end - self.start)
