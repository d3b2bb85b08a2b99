"""What a world checkpoint says of itself: how it streams, and which keys it obeys. Imports no torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from streamgen.errors import UsageError
from streamgen.pipelines.settings import FILE, VideoSettings
from streamgen.pipelines.world_keys import CODES, Actions


@dataclass(frozen=True)
class ActionSettings:
    """How actions become numbers, one row a chunk: idle, each name in order, the mouse."""

    input: Literal["none", "planes", "embedding"]
    keys: tuple[tuple[str, tuple[str, ...]], ...]  # name of an action and the codes that mean it
    idle: bool  # the first number is 1 while no other is
    exclusive: bool  # one action at a time: the first of the list that is held
    mouse: float  # pixels that count as 1; 0 = the mouse is not obeyed

    def __post_init__(self) -> None:
        if self.input not in ("none", "planes", "embedding"):
            raise UsageError(f"Actions enter as 'none', 'planes' or 'embedding', not '{self.input}'.")
        for code in sorted(self.obeyed - CODES):
            raise UsageError(f"{FILE} lets actions be keyed by {code!r}, which is no W3C key code.")
        if (self.input == "none") != (self.numbers == 0):
            raise UsageError(f"{FILE} gives {self.numbers} actions that enter as '{self.input}'.")

    @property
    def obeyed(self) -> frozenset[str]:
        """The key codes that mean something."""
        return frozenset(code for _, codes in self.keys for code in codes)

    @property
    def numbers(self) -> int:
        """Length of a row."""
        return self.idle + len(self.keys) + 2 * (self.mouse > 0)

    def row(self, actions: Actions) -> tuple[float, ...]:
        """The numbers of a chunk; what the model does not obey is refused by name."""
        self.check(actions)
        held = [float(any(code in actions.keys for code in codes)) for _, codes in self.keys]
        if self.exclusive and 1.0 in held:
            first = held.index(1.0)
            held = [float(number == first) for number in range(len(held))]
        idle = [float(not any(held))] if self.idle else []
        mouse = [max(-1.0, min(1.0, way / self.mouse)) for way in actions.mouse] if self.mouse else []
        return (*idle, *held, *mouse)

    def check(self, actions: Actions) -> None:
        """Refuse what this model cannot obey."""
        unknown = sorted(actions.keys - self.obeyed)
        if unknown:
            known = ", ".join(sorted(self.obeyed)) or "no key: it has no actions, only prompts"
            raise UsageError(f"This model does not obey {', '.join(unknown)}; it obeys {known}.")
        if any(actions.mouse) and not self.mouse:
            raise UsageError("This model does not obey the mouse; leave mouse moves out.")

    def obeys(self, actions: Actions) -> Actions:
        """What is left of actions that a player typed at random."""
        return Actions(actions.keys & self.obeyed, actions.mouse if self.mouse else (0.0, 0.0))


NO_ACTIONS = ActionSettings("none", (), idle=False, exclusive=False, mouse=0)


@dataclass(frozen=True)
class WorldSettings:
    """`streamgen.json` of a world: the entries of a video, and `actions`."""

    video: VideoSettings
    actions: ActionSettings

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a checkpoint folder. A video checkpoint is a world without actions."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise UsageError(f"{folder} has no {FILE}, which says how the checkpoint streams; add one.")
        facts = json.loads(path.read_text())
        kind = facts.pop("pipeline", None)
        if kind not in ("world", "video"):
            raise UsageError(f"{path} describes a {kind!r} checkpoint; a world needs 'world' or 'video'.")
        if kind == "world" and "actions" not in facts:
            raise UsageError(f"{path} describes a world without `actions`; add them, or call it a video.")
        actions = _actions(facts.pop("actions"), str(path)) if kind == "world" else NO_ACTIONS
        return cls(VideoSettings.of(facts, str(path)), actions)


def openings(folder: Path) -> dict[str, Path]:
    """The pictures to begin from that a checkpoint brings along, by name."""
    return {path.stem: path for path in sorted((Path(folder) / "openings").glob("*.png"))}


def _actions(facts: dict[str, Any], source: str) -> ActionSettings:
    names = {"input", "keys", "idle", "exclusive", "mouse"}
    if facts.keys() != names:
        raise UsageError(f"`actions` of {source} has {sorted(facts)}; its entries are {sorted(names)}.")
    keys = tuple((name, tuple(codes)) for name, codes in facts["keys"].items())
    return ActionSettings(facts["input"], keys, facts["idle"], facts["exclusive"], float(facts["mouse"]))
