"""How well `tiny-world` obeys and lasts.

    python -m weights.recipes.tiny_world.evaluate --rollouts 32 --frames 600 --sheet docs/pictures/x.png

Every world starts from words alone and runs free under random keys, through the product's own pipeline. The
judge reads pixels; contrast and detail are ratios to the simulator's pictures under the same look and keys.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import streamgen as sg

from ..tiny_video.evaluate import sheet
from ..world import judge
from ..world.scene import HERO_LEFT, HERO_TOP
from .rollouts import Rollout, choose, faces, kept, obeyed, roll, walk

SPANS = ((0, 64), (64, 300), (300, 600))


def span(rollouts: Sequence[Rollout], first: int, last: int) -> dict[str, float]:
    """Shares and ratios over frames first .. last of every rollout."""
    parts = [(r, slice(first, last)) for r in rollouts]
    steps = np.concatenate(
        [obeyed(r.frames[max(0, first - 1) : last], r.played[max(0, first - 1) : last]) for r, _ in parts]
    )
    facing = np.concatenate([faces(r.frames, r.played)[part] for r, part in parts])
    looks = [
        judge.look(frame)[:2] == (r.look.biome, r.look.time)
        for r, part in parts
        for frame in r.frames[part][::4]
    ]
    coats = [judge.who(frame).coat == r.look.coat for r, part in parts for frame in r.frames[part][::4]]
    far = [judge.distance(frame, r.look) for r, part in parts for frame in r.frames[part][::4]]
    true_far = [judge.distance(frame, r.look) for r, part in parts for frame in r.true[part][::16]]
    dry = [r for r, _ in parts if r.look.weather != "rain"]
    same = [kept(r.frames[first:last], r.played[first:last]) for r in dry]
    ratios = {
        f.__name__: np.mean([f(r.frames[part]) for r, part in parts])
        / np.mean([f(r.true[part]) for r, part in parts])
        for f in (judge.contrast, judge.detail)
    }
    return {
        "obeys": steps.mean(), "faces": facing.mean(), "look": np.mean(looks), "coat": np.mean(coats),
        "palette": np.mean(far), "true_palette": np.mean(true_far),
        "overlap_db": np.concatenate(same).mean() if same else float("nan"), **ratios,
    }  # fmt: skip


def starts(rollouts: Sequence[Rollout]) -> float:
    """Share of worlds that begin with exactly one hero, in its place."""
    return float(np.mean([judge.heroes(r.frames[0]) == [(HERO_TOP, HERO_LEFT)] for r in rollouts]))


def idle(pipe: "sg.WorldPipeline", count: int, frames: int, seed: int) -> tuple[float, float]:
    """Share of still steps while no key is held after a short walk, and dB of the last frame to the first."""
    still, ratios = [], []
    for look, prompt, number, played in choose(count, 12, seed):
        if look.weather == "rain":
            continue
        with pipe.start(prompt, seed=number, undo=1) as world:
            walk(world, played)
            resting = walk(world, ["stay"] * frames)
        still.append(obeyed(resting, ["stay"] * frames))
        ratios.append(kept(resting[[0, -1]], ["stay"] * 2)[0])
    return float(np.concatenate(still).mean()), float(np.mean(ratios))


def rounded(numbers: dict[str, float]) -> dict[str, float]:
    return {name: round(float(number), 4) for name, number in numbers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny-world")
    parser.add_argument("--rollouts", type=int, default=32)
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sink", type=int, help="frames never forgotten; 0 shows what the sink is for")
    parser.add_argument("--steps", type=int, help="denoising steps a frame")
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pipe = sg.WorldPipeline.from_pretrained(options.model)
    rollouts = []
    for look, prompt, seed, played in choose(options.rollouts, options.frames, options.seed):
        rollouts.append(roll(pipe, look, prompt, seed, played, options.sink, options.steps))
        share = obeyed(rollouts[-1].frames, played).mean()
        print(f"obeys {share:.3f}  {prompt}", flush=True)
    for first, last in SPANS:
        if last <= options.frames or first == 0:
            print(first, last, json.dumps(rounded(span(rollouts, first, last))), flush=True)
    print(f"starts {starts(rollouts):.3f}")
    if options.sink is None:
        print("idle: still {:.4f}, {:.1f} dB after 80 frames".format(*idle(pipe, 12, 80, options.seed)))
    if options.sheet:
        sheet([r.frames for r in rollouts[:16]], 12, options.sheet)


if __name__ == "__main__":
    main()
