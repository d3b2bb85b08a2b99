"""Writes a trained run as a checkpoint folder.

    python -m weights.recipes.tiny_world.export --run runs/tiny-world --to weights/tiny-world

The folder is tiny-video's, with actions in `streamgen.json` and pictures to begin from in `openings`.
Afterwards `python -m weights.recipes.register tiny-world` writes the sums of the files into the registry.
"""

import argparse
from pathlib import Path

from PIL import Image

from ..tiny_video.export import SETTINGS as VIDEO
from ..tiny_video.export import write
from ..world.scene import Look
from .data import ACTIONS, SETTINGS, play

STEPS = [1000, 750, 500, 250]  # two of them (`steps=2`) are the fastest that still play
OPENINGS = {
    "meadow": (Look("meadow", "day", "clear", "red"), 11),
    "lake": (Look("meadow", "dusk", "clear", "blue"), 8),
    "desert": (Look("desert", "day", "clear", "green"), 7),
    "oasis": (Look("desert", "night", "clear", "yellow"), 24),
    "snow": (Look("snow", "day", "clear", "purple"), 3),
    "tundra": (Look("snow", "night", "clear", "red"), 24),
    "volcano": (Look("lava", "day", "clear", "blue"), 12),
    "embers": (Look("lava", "dusk", "clear", "white"), 15),
}  # name: what it shows, and the seed of its ground


def export(run: Path, to: Path) -> None:
    settings = VIDEO | {"pipeline": "world", "steps": STEPS, "actions": SETTINGS}
    write(run, to, settings, actions=len(ACTIONS))
    (to / "openings").mkdir(exist_ok=True)
    for name, (look, seed) in OPENINGS.items():
        Image.fromarray(play(look, ["stay"], seed)[0]).save(to / "openings" / f"{name}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path("runs/tiny-world"))
    parser.add_argument("--to", type=Path, default=Path("weights/tiny-world"))
    options = parser.parse_args()
    export(options.run, options.to)


if __name__ == "__main__":
    main()
