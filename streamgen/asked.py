"""Numbers that a caller gives, settled or refused in a sentence."""

import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any

from streamgen.errors import UsageError

SEEDS = 2**63


def whole(name: str, value: Any, why: str, least: int = 1, most: int | None = None) -> int:
    """An int of what counts as a whole number, numpy's and tensors' too; a bool or 2.0 is none.

    `why` says what such a value does, after the name: "makes no text".
    """
    number = _index(value)
    if number is None or number < least or (most is not None and number > most):
        end = "on" if most is None else f"to {most}"
        raise UsageError(f"{name}={value!r:.60} {why}; give a whole number from {least} {end}.")
    return number


def real(name: str, value: Any, why: str, least: float = -math.inf, most: float = math.inf) -> float:
    """A float of a finite number from `least` to `most`; `why` says what is wrong and what to give."""
    number = _float(value)
    if number is None or not math.isfinite(number) or not least <= number <= most:
        raise UsageError(f"{name}={value!r:.60} {why}.")
    return number


def seed(value: Any) -> int:
    """A seed: 63 bits."""
    return whole("seed", value, "is no seed", least=0, most=SEEDS - 1)


def several(given: Any) -> list[Any] | None:
    """The values of a list or an array, not looked at; None of a single one, which a text is, too."""
    listed = given.tolist() if hasattr(given, "tolist") else given
    return list(listed) if isinstance(listed, Sequence) and not isinstance(listed, str) else None


def _index(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number that no float holds
        return None
