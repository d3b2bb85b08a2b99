"""Names and numbers of the classes that a next-scale model knows."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files

from streamgen.errors import UsageError

Label = int | str | None
NO_CLASS = "no class"
_NO_CLASS = (NO_CLASS, "none")


@dataclass(frozen=True)
class ClassNames:
    """Each name may hold synonyms, cut by commas; the number of a class is its place."""

    names: tuple[str, ...]

    @classmethod
    def imagenet(cls) -> "ClassNames":
        """The thousand classes of the published models, in their order."""
        text = files("streamgen.models").joinpath("var_imagenet.txt").read_text(encoding="utf-8")
        return cls(tuple(text.splitlines()))

    @classmethod
    def numbered(cls, count: int) -> "ClassNames":
        """For a model whose classes have no names."""
        return cls(tuple(str(number) for number in range(count)))

    @property
    def no_class(self) -> int:
        """The number that stands for no class."""
        return len(self.names)

    def name(self, number: int) -> str:
        """The first name of a class."""
        return NO_CLASS if number == self.no_class else self.names[number].split(",")[0].strip()

    def number(self, label: Label) -> int:
        """A number, a name or a synonym in any case; None, -1, "none" and "no class" mean no class."""
        if label is None or label == -1 or (isinstance(label, str) and label.strip().lower() in _NO_CLASS):
            return self.no_class
        if isinstance(label, bool) or not isinstance(label, int | str):
            raise UsageError(f"{label!r} is no label; give a class number, a name, or None for no class.")
        if isinstance(label, int):
            return self._in_range(label)
        found = self._numbers.get(label.strip().lower(), ())
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"The label {label!r} is the name of {self._listed(found)}; give the number of one."
            )
        return self._in_range(int(label)) if label.strip().isdecimal() else self._unknown(label)

    @cached_property
    def _numbers(self) -> dict[str, tuple[int, ...]]:
        """Every name and synonym, and whose it is."""
        found: dict[str, tuple[int, ...]] = defaultdict(tuple)
        for number, names in enumerate(self.names):
            for name in {names.lower(), *(part.strip().lower() for part in names.split(","))}:
                found[name] += (number,)
        return found

    def _in_range(self, number: int) -> int:
        if not 0 <= number <= self.no_class:
            raise UsageError(
                f"There is no class {number}: this model knows 0 to {self.no_class - 1}, "
                f"and {self.no_class} (or None) for no class."
            )
        return number

    def _unknown(self, label: str) -> int:
        near = get_close_matches(label.strip().lower(), self._numbers, n=3, cutoff=0.6)
        meant = f"near it are {', '.join(near)}" if near else f"some are {self._some()}"
        raise UsageError(
            f"There is no class {label!r} among the {self.no_class} of this model; {meant}. "
            "Give a name, a number, or 'no class'."
        )

    def _listed(self, numbers: Sequence[int]) -> str:
        return " and ".join(f"class {number} ({self.names[number]})" for number in numbers)

    def _some(self) -> str:
        step = max(1, self.no_class // 5)
        return ", ".join(self.name(number) for number in range(0, self.no_class, step))
