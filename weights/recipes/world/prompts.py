"""English for a scene: every attribute has several words, and what is not said has a stated default."""

import itertools
import zlib
from dataclasses import dataclass

import numpy as np

from .looks import BIOMES, TIMES, WEATHERS
from .scene import STEPS, Look
from .sprites import COATS

_BIOME = {
    "meadow": ("a meadow", "the meadows", "green grassland", "grassy fields", "grass"),
    "desert": ("a desert", "the desert", "sand dunes", "sandy dunes", "sand"),
    "snow": ("snow", "the snow", "a snowy land", "the tundra", "winter snow"),
    "lava": ("a volcano", "lava", "volcanic land", "lava fields", "the volcanic land"),
}
_TIME = {
    "day": ("by day", "at noon", "in daylight", "during the day", "at midday"),
    "dusk": ("at dusk", "at sunset", "in the evening", "at twilight", "in the dusk"),
    "night": ("at night", "at midnight", "by night", "in the night", "during the night"),
}
_WEATHER = {
    "clear": ("under a clear sky", "in clear weather", "in sunshine", "on a clear day", "in clear air"),
    "rain": ("in the rain", "in rain", "on a rainy day", "in rainy weather", "in a rainstorm"),
    "fog": ("in fog", "in the fog", "in the mist", "in misty air", "on a foggy day"),
}
_WALK = {
    "north": ("walks north", "goes north", "heads north", "walks up", "is walking north"),
    "south": ("walks south", "goes south", "heads south", "walks down", "is walking south"),
    "east": ("walks east", "goes east", "heads east", "walks right", "is walking east"),
    "west": ("walks west", "goes west", "heads west", "walks left", "is walking west"),
    "stay": ("stands still", "waits", "stands", "rests", "is standing still"),
}
_WHO = ("a hero", "the hero", "a traveller", "a wanderer", "a person", "someone")
_DRESSED = ("in a {} coat", "wearing a {} coat", "with a {} coat", "in {}", "dressed in {}")
DEFAULTS = {"time": "day", "weather": "clear", "coat": "red", "walk": "stay"}


@dataclass(frozen=True)
class Scene:
    look: Look
    walk: str


def scenes() -> list[Scene]:
    """All combinations that a prompt can name: biome x time x weather x coat x walk."""
    parts = (BIOMES, TIMES, WEATHERS, COATS, STEPS)
    return [Scene(Look(b, t, w, c), walk) for b, t, w, c, walk in itertools.product(*parts)]


def held_out(scene: Scene) -> bool:
    """A tenth of the combinations, chosen by a hash, is never shown in training."""
    look = scene.look
    name = f"{look.biome} {look.time} {look.weather} {look.coat} {scene.walk}"
    return zlib.crc32(name.encode()) % 10 == 0


def describe(scene: Scene, rng: np.random.Generator, terse: float = 0.15) -> str:
    """One English sentence for the scene; with probability `terse` each, defaults are left unsaid."""
    look = scene.look

    def said(attribute: str, value: str) -> bool:
        return DEFAULTS[attribute] != value or rng.random() > terse

    def pick(options: tuple[str, ...]) -> str:
        return options[0] if rng.random() < 0.4 else options[rng.integers(len(options))]

    words = [pick(_WHO)]
    if said("coat", look.coat):
        words.append(pick(_DRESSED).format(look.coat))
    walks = said("walk", scene.walk)
    words.append(pick(_WALK[scene.walk]) if walks else "")
    words.append(("in " if rng.random() < 0.3 else "through ") + pick(_BIOME[look.biome]))
    tail = [pick(_TIME[look.time])] if said("time", look.time) else []
    if said("weather", look.weather):
        tail.append(pick(_WEATHER[look.weather]))
    if rng.random() < 0.5:
        tail.reverse()
    return " ".join(w for w in words + tail if w)


def vocabulary() -> list[str]:
    """Every word that a description can use, in a fixed order."""
    phrases = itertools.chain(
        _WHO,
        _DRESSED,
        COATS,
        ("in", "through"),
        *(p for t in (_BIOME, _TIME, _WEATHER, _WALK) for p in t.values()),
    )
    return sorted({w for phrase in phrases for w in phrase.replace("{}", "").split()})
