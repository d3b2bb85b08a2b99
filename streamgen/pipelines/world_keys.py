"""What a player does during a chunk: keys by their W3C codes, and the way the mouse went."""

import math
import string
from collections.abc import Iterable
from dataclasses import dataclass

from streamgen.errors import UsageError

_LETTERS = {letter: f"Key{letter.upper()}" for letter in string.ascii_lowercase}
_DIGITS = {digit: f"Digit{digit}" for digit in string.digits}
NAMES = {
    **_LETTERS,
    **_DIGITS,
    "up": "ArrowUp",
    "down": "ArrowDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "space": "Space",
    "enter": "Enter",
    "tab": "Tab",
    "esc": "Escape",
    "backspace": "Backspace",
    "shift": "ShiftLeft",
    "ctrl": "ControlLeft",
    "alt": "AltLeft",
}
CODES = frozenset(NAMES.values()) | {"ShiftRight", "ControlRight", "AltRight", "MetaLeft", "MetaRight"}
IDLE_NAMES = ("none", "idle", "_")


@dataclass(frozen=True)
class Actions:
    """The keys that were down at any time in a chunk, and the pixels that the mouse moved."""

    keys: frozenset[str] = frozenset()
    mouse: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        for code in sorted(self.keys - CODES):
            raise UsageError(
                f"There is no key {code!r}; keys are W3C codes such as KeyW, ArrowUp, Space or ShiftLeft."
            )
        if not all(math.isfinite(pixels) for pixels in self.mouse):
            raise UsageError(f"The mouse cannot move by {self.mouse}; give two finite numbers of pixels.")

    def __or__(self, other: "Actions") -> "Actions":
        """Both in one chunk: a short tap still counts, and mouse moves add up."""
        (x, y), (dx, dy) = self.mouse, other.mouse
        return Actions(self.keys | other.keys, (x + dx, y + dy))

    @property
    def words(self) -> list[object]:
        """As JSON writes it: sorted codes, then the mouse where it moved."""
        return [*sorted(self.keys), *([list(self.mouse)] if any(self.mouse) else [])]

    @classmethod
    def of(cls, actions: "Actions | Iterable[str]") -> "Actions":
        """From key codes, or as they are."""
        if isinstance(actions, Actions):
            return actions
        if isinstance(actions, str):
            raise UsageError(f"Actions are a set of key codes; write {{{actions!r}}} instead of {actions!r}.")
        return cls(frozenset(actions))

    @classmethod
    def read(cls, words: Iterable[object]) -> "Actions":
        """From what `words` gives."""
        keys: list[str] = []
        mouse = (0.0, 0.0)
        for word in words:
            if isinstance(word, str):
                keys.append(word)
            elif isinstance(word, list) and len(word) == 2:
                mouse = (float(word[0]), float(word[1]))
            else:
                raise UsageError(f"{word!r} is neither a key code nor a mouse move [dx, dy].")
        return cls(frozenset(keys), mouse)


IDLE = Actions()


def named(text: str) -> Actions:
    """`w+space` -> KeyW and Space; `none` is nothing; `mouse:12:-3` is a move of the mouse."""
    whole = IDLE
    for part in text.split("+"):
        whole = whole | _one(part.strip())
    return whole


def _one(name: str) -> Actions:
    if name.lower() in IDLE_NAMES:
        return IDLE
    kind, *numbers = name.split(":")
    if kind.lower() == "mouse" and len(numbers) == 2:
        try:
            return Actions(mouse=(float(numbers[0]), float(numbers[1])))
        except ValueError as error:
            raise UsageError(f"{name!r} is no move of the mouse; write mouse:DX:DY in pixels.") from error
    code = NAMES.get(name.lower(), name)
    if code not in CODES:
        raise UsageError(
            f"There is no key {name!r}; write letters, digits, up, down, left, right, space, shift, ctrl, "
            "a W3C code such as KeyW, mouse:DX:DY, or none."
        )
    return Actions(frozenset({code}))
