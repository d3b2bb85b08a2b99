"""People of the procedural world, what is true of them, and the many ways to say and to ask it.

A document is a few sentences: a scene, then facts in any order, among them some that nobody asks for.
"""

from dataclasses import dataclass

import numpy as np

from ..world.looks import BIOMES, TIMES, WEATHERS
from ..world.prompts import describe, scenes
from ..world.prompts import vocabulary as scene_words
from ..world.scene import STEPS
from ..world.sprites import COATS

NAMES = (
    "ada", "ben", "cora", "dan", "ella", "finn", "gina", "hugo", "iris", "jon", "kira", "leo", "mona",
    "nils", "olga", "paul", "rosa", "sam", "tina", "udo", "vera", "will", "yara", "zeno", "anton", "bella",
    "carl", "dora", "emil", "frida", "gustav", "hanna",
)  # fmt: skip
THINGS = (
    "lantern", "map", "rope", "drum", "mirror", "ladder", "kettle", "banner", "compass", "flute", "shovel",
    "basket", "candle", "anchor", "saddle", "bell", "hammer", "violin", "net", "book",
)  # fmt: skip
FRIENDS = (
    "fox", "owl", "bear", "goose", "wolf", "crow", "horse", "goat", "hare", "cat", "dog", "mouse",
)  # fmt: skip


@dataclass(frozen=True)
class Relation:
    """What can be true of somebody: its values, how it is said, and how it is asked."""

    values: tuple[str, ...]
    said: tuple[str, ...]  # {0} is the name, {1} the value
    asked: tuple[str, ...]


RELATIONS: dict[str, Relation] = {
    "coat": Relation(
        tuple(COATS),
        ("{0} wears a {1} coat", "the coat of {0} is {1}", "{0} is dressed in {1}", "{0} bought a {1} coat"),
        ("which coat does {0} wear", "what is the color of the coat of {0}", "in which color is {0} dressed"),
    ),
    "home": Relation(
        tuple(BIOMES),
        ("{0} lives in the {1}", "the home of {0} is the {1}", "{0} has a house in the {1}"),
        ("where does {0} live", "where is the home of {0}", "where is the house of {0}"),
    ),
    "walk": Relation(
        tuple(step for step in STEPS if step != "stay"),
        ("{0} walks {1}", "{0} is on the way {1}", "the path of {0} goes {1}"),
        ("where does {0} walk", "where does the path of {0} go", "which way does {0} take"),
    ),
    "time": Relation(
        tuple(TIMES),
        ("{0} sets out at {1}", "{0} travels at {1}", "one sees {0} at {1}"),
        ("when does {0} set out", "when does {0} travel", "at what time does one see {0}"),
    ),
    "weather": Relation(
        tuple(WEATHERS),
        ("{0} likes {1} weather", "{1} weather pleases {0}", "{0} waits for {1} weather"),
        ("which weather does {0} like", "what weather pleases {0}", "what weather does {0} wait for"),
    ),
    "thing": Relation(
        THINGS,
        ("{0} carries a {1}", "{0} found a {1}", "there is a {1} in the bag of {0}", "{0} owns a {1}"),
        ("what does {0} carry", "what did {0} find", "what is in the bag of {0}", "what does {0} own"),
    ),
    "friend": Relation(
        tuple(FRIENDS),
        ("the friend of {0} is a {1}", "{0} is friends with a {1}", "a {1} follows {0}"),
        ("who is the friend of {0}", "with whom is {0} friends", "who follows {0}"),
    ),
}


@dataclass(frozen=True)
class Fact:
    """One true sentence, and the word that answers a question about it."""

    name: str
    relation: str
    value: str

    def said(self, rng: np.random.Generator) -> str:
        return _any(RELATIONS[self.relation].said, rng).format(self.name, self.value)

    def asked(self, rng: np.random.Generator) -> str:
        return _any(RELATIONS[self.relation].asked, rng).format(self.name) + " ?"


@dataclass(frozen=True)
class Document:
    """A text and the facts in it, none of which contradicts another."""

    text: str
    facts: tuple[Fact, ...]


def document(count: int, rng: np.random.Generator, scene: float = 0.3) -> Document:
    """A document of at most so many facts.

    Some documents tell the same of everybody, some all of one: neither name nor relation alone answers.
    With probability `scene` it begins with a sentence of no use.
    """
    chosen = rng.choice(list(RELATIONS), size=rng.integers(1, len(RELATIONS) + 1), replace=False)
    fewest = -(-count // len(chosen))
    crowd = min(len(NAMES), int(rng.integers(fewest, max(fewest, count) + 1)))
    people = rng.choice(len(NAMES), size=crowd, replace=False)
    pairs = [(NAMES[person], str(relation)) for person in people for relation in chosen]
    picked = rng.choice(len(pairs), size=min(count, len(pairs)), replace=False)
    facts = tuple(Fact(*pairs[index], _any(RELATIONS[pairs[index][1]].values, rng)) for index in picked)
    sentences = [fact.said(rng) for fact in facts]
    if rng.random() < scene:
        sentences.insert(0, describe(_SCENES[rng.integers(len(_SCENES))], rng))
    return Document(" . ".join(sentences) + " .", facts)


def vocabulary() -> list[str]:
    """Every word that a document or a question can use, in a fixed order."""
    texts = [*NAMES, *scene_words(), ". ?"]
    for relation in RELATIONS.values():
        texts += [*relation.values, *relation.said, *relation.asked]
    return sorted({word for text in texts for word in text.replace("{0}", "").replace("{1}", "").split()})


_SCENES = scenes()


def _any(options: tuple[str, ...], rng: np.random.Generator) -> str:
    return options[rng.integers(len(options))]
