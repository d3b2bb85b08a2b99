"""How far the rotary frequencies of a stock model are constants.

"dynamic" and "longrope" choose them by the largest position of a whole pass: past a certain length a text
would change with its neighbours, and with keys that were turned before. Up to that length they are constants.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamgen.errors import UsageError

STEADY = ("default", "linear", "yarn", "llama3")


@dataclass(frozen=True)
class Reach:
    """The most tokens of a text, and why not more."""

    tokens: int
    why: str  # after the number
    turns: bool = False  # whether frequencies would change behind them


def reach_of(config: Any, name: str) -> Reach:
    """How long a text of this model may be, the same alone and among others."""
    reach = Reach(config.max_position_embeddings, "that this model was made for")
    for rope in _ropes(config):
        kind = rope.get("rope_type", "default")
        if kind in STEADY:
            continue
        if kind not in ("dynamic", "longrope"):
            raise UsageError(
                f"{name} turns its keys with rope_type {kind!r}, which is not known to be the same at every "
                f"length; choose a checkpoint with one of {', '.join(STEADY)}, dynamic or longrope."
            )
        most = rope["original_max_position_embeddings"] if kind == "longrope" else reach.tokens
        why = f"up to which its rope_type {kind!r} turns the keys of every text alike"
        reach = Reach(min(most, reach.tokens), why, turns=True)
    return reach


def _ropes(config: Any) -> Iterator[dict[str, Any]]:
    """The rotary embeddings of a config: none, one, or one for each kind of layer."""
    given = getattr(config, "rope_parameters", None) or {}
    if "rope_type" in given:
        yield given
    else:
        yield from (one for one in given.values() if isinstance(one, dict))
