"""A wish for images, checked and settled before anything is computed."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamgen.asked import seed, several
from streamgen.errors import UsageError
from streamgen.models.var_classes import ClassNames, Label
from streamgen.pipelines.image_settings import Sampling


@dataclass(frozen=True)
class ImageRequest:
    """Everything a batch is made from; the same request gives the same pictures."""

    labels: tuple[int, ...]
    seeds: tuple[int, ...]
    sampling: Sampling


def settle_labels(labels: Label | Sequence[Label], classes: ClassNames) -> tuple[int, ...]:
    """Class numbers of a batch of at least one."""
    listed = list(labels) if isinstance(labels, Sequence) and not isinstance(labels, str) else [labels]
    if not listed:
        raise UsageError("No label was given; give at least one, and None for no class.")
    return tuple(classes.number(label) for label in listed)


def settle_seeds(seeds: int | Sequence[int], images: int) -> tuple[int, ...]:
    """A seed for each image; a single one counts up."""
    listed = several(seeds)
    if listed is None:
        first = seed(seeds)
        listed = [first + number for number in range(images)]
    if len(listed) != images or not listed:
        raise UsageError(
            f"{len(listed)} seeds were given for {images} images; give one for each, or one to count up."
        )
    return tuple(map(seed, listed))


def settle_size(asked: tuple[int, int] | None, trained: tuple[int, int], patches: Sequence[int]) -> None:
    """Refuse another size than the model was trained for."""
    if asked is None or tuple(asked) == trained:
        return
    raise UsageError(
        f"{'x'.join(map(str, asked))} was asked for and this model makes {trained[0]}x{trained[1]} in scales "
        f"{list(patches)}: the place and the level of every token were learned for these scales, so others "
        "give noise. Leave size out, or give a checkpoint trained for it."
    )
