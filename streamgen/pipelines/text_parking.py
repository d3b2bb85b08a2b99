"""Texts in host memory: all of a group or none, a page that they share once."""

from collections.abc import Sequence

from streamgen.kv.errors import OutOfPagesError
from streamgen.kv.swap import Swapped, swap_in, swap_out
from streamgen.pipelines.text_memory import Past, TextMemory


def park(pasts: Sequence[Past]) -> list[Swapped]:
    """Move texts that share pages to host memory together, each shared page once."""
    columns = zip(*[past.caches for past in pasts], strict=True)
    return [swap_out(caches) for caches in columns]


def unpark(memory: TextMemory, parked: Sequence[Swapped]) -> None:
    """Bring them back into every group or into none."""
    for group, swapped in zip(memory.groups, parked, strict=True):
        if len(swapped.stored) > group.pool.pages.free:
            raise OutOfPagesError(
                f"{len(swapped.stored)} pages come back and {group.pool.pages.free} are free; wait for a "
                "text to end, or build the memory for more tokens."
            )
    for swapped in parked:
        swap_in(swapped)
