"""Clips of the world under random keys: each frame shows what the key that led to it did.

Shapes: B clips, F frames, A actions (idle, up, down, left, right).
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ..tiny_video.data import Batch
from ..tiny_video.model import WINDOW
from ..world.prompts import Scene, describe, scenes
from ..world.scene import STEPS, Frames, Look, render

ACTIONS = ("stay", "north", "south", "west", "east")  # in the order of the planes
LOOKS = [scene.look for scene in scenes() if scene.walk == "stay"]
KEYS = {
    "up": ["KeyW", "ArrowUp"],
    "down": ["KeyS", "ArrowDown"],
    "left": ["KeyA", "ArrowLeft"],
    "right": ["KeyD", "ArrowRight"],
}
SETTINGS = {"input": "planes", "keys": KEYS, "idle": True, "exclusive": True, "mouse": 0}
HELD = 4  # chunks that a player holds a key, on average
MODES = ("none", "last", "window")  # how a clip with a switch remembers the frames before it


def batch(
    clips: int,
    frames: int,
    rng: np.random.Generator,
    switches: float = 0.35,
    late: float = 0.45,
    starts: int = 1,
) -> Batch:
    """Clips of random play; some change their look on the way, some begin far from their sink.

    `starts` of the clips are nothing but first frames: a world begins only once, and must begin well.
    """
    parts = [_starts(frames, rng) for _ in range(starts)]
    parts += [_clip(frames, rng, rng.random() < switches, rng.random() < late) for _ in range(clips - starts)]
    offsets = np.cumsum([0, *(len(part.words) for part in parts)]).tolist()
    shifted = [(part.prompt + at, part.heard + at) for part, at in zip(parts, offsets, strict=False)]
    return Batch(
        frames=torch.cat([part.frames for part in parts]),
        words=[word for part in parts for word in part.words],
        prompt=torch.cat([prompt for prompt, _ in shifted]),
        late=torch.cat([part.late for part in parts]),
        alone=torch.cat([part.alone for part in parts]),
        fresh=torch.cat([part.fresh for part in parts]),
        heard=torch.cat([heard for _, heard in shifted]),
        lost=torch.cat([part.lost for part in parts]),
        acts=torch.cat([part.acts for part in parts]),
    )


def say(look: Look, rng: np.random.Generator) -> str:
    """Words for a look; now and then they speak of a walk, which the keys decide alone."""
    walk = str(rng.choice(ACTIONS)) if rng.random() < 0.25 else "stay"
    return describe(Scene(look, walk), rng, terse=0.6)


def keys(frames: int, rng: np.random.Generator) -> list[str]:
    """What led to each frame: keys are held for a while, and sometimes nothing is."""
    played = ["stay"]
    while len(played) < frames:
        played += [ACTIONS[rng.integers(len(ACTIONS))]] * (1 + int(rng.poisson(HELD - 1)))
    return played[:frames]


def play(
    look: Look,
    played: Sequence[str],
    seed: int,
    start: tuple[int, int] = (0, 0),
    first: int = 0,
    facing: str = "south",
) -> Frames:
    """The pictures of a look under what led to each of them; an idle hero looks where it went last."""
    poses = []
    for act in played:
        facing = facing if act == "stay" else act
        poses.append((facing, act != "stay"))
    return render(look, played[1:], seed, start, first, poses)


def _starts(frames: int, rng: np.random.Generator) -> Batch:
    looks = [LOOKS[i] for i in rng.integers(len(LOOKS), size=frames)]
    pictures = [play(look, ["stay"], int(rng.integers(1 << 30)))[0] for look in looks]
    words = [say(look, rng) for look in looks]
    return _one(np.stack(pictures), ["stay"] * frames, words, np.arange(frames), alone=True)


def _clip(frames: int, rng: np.random.Generator, switch: bool, late: bool) -> Batch:
    old = LOOKS[rng.integers(len(LOOKS))]
    new = other(old, rng) if switch else old
    at = int(rng.integers(5 if late else 2, frames - 1)) if switch else frames
    played, seed = keys(frames, rng), int(rng.integers(1 << 30))
    first = int(rng.integers(8, 400)) if late else 0
    facing = str(rng.choice(ACTIONS[1:])) if late else "south"
    picture = play(old, played, seed, first=first, facing=facing)
    if switch:
        picture[at:] = play(new, played, seed, first=first, facing=facing)[at:]
    if late:
        away = rng.integers(-60, 61, size=2)
        picture[0] = play(old, ["stay"], seed, start=(int(away[0]), int(away[1])))[0]
    prompt = (np.arange(frames) >= at).astype(np.int64)
    heard, lost = recached(prompt, at, str(rng.choice(MODES, p=(0.2, 0.4, 0.4))), rng.random() < 0.3)
    return _one(picture, played, [say(old, rng), say(new, rng)], prompt, heard, lost, late)


def recached(
    prompt: NDArray[np.int64], at: int, mode: str, renew_sink: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Under which words each frame is remembered after a switch before frame `at`; frames that saw others.

    A frame before the switch that looks back at a renewed one would see what was not there yet.
    """
    heard, now = prompt.copy(), np.arange(len(prompt))
    if at >= len(prompt) or mode == "none":
        return heard, np.zeros(len(prompt), bool)
    renewed = max(0, at - (1 if mode == "last" else WINDOW))
    heard[renewed:at] = 1
    if mode == "window" and renew_sink:
        heard[0] = 1
        return heard, now < at
    return heard, (now > renewed) & (now < at)


def other(look: Look, rng: np.random.Generator) -> Look:
    """A new look; mostly the coat stays, and often the biome or the time."""
    new = LOOKS[rng.integers(len(LOOKS))]
    stays = rng.random(4) < (0.35, 0.35, 0.5, 0.8)
    mixed = Look(
        *(getattr(look if stay else new, name) for stay, name in zip(stays, vars(look), strict=True))
    )
    return new if mixed == look else mixed


def _one(
    pictures: Frames,
    played: Sequence[str],
    words: list[str],
    prompt: NDArray[np.int64],
    heard: NDArray[np.int64] | None = None,
    lost: NDArray[np.bool_] | None = None,
    late: bool = False,
    alone: bool = False,
) -> Batch:
    index = [ACTIONS.index(act) for act in played]
    return Batch(
        frames=torch.from_numpy(pictures)[None],
        words=words,
        prompt=torch.from_numpy(prompt)[None],
        late=torch.tensor([late]),
        alone=torch.tensor([alone]),
        fresh=torch.tensor([STEPS[act] for act in played])[None],
        heard=torch.from_numpy(prompt if heard is None else heard)[None],
        lost=torch.from_numpy(np.zeros(len(played), bool) if lost is None else lost)[None],
        acts=torch.eye(len(ACTIONS))[index][None],
    )
