"""How often `tiny-vlm` is right, on stories that training never showed, by the simulator's truth.

    python -m weights.recipes.tiny_vlm.evaluate --stories 60
    python -m weights.recipes.tiny_vlm.evaluate --stories 60 --memory hermes --budget 64

Every story is drawn by the simulator on new ground and asked one question of every kind at its end. The
answers come from stock transformers, where the whole story and one question are put to `generate`; or, with
--memory, from the product's own pipeline, which sees the story in chunks and remembers what fits.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer, LlavaOnevisionForConditionalGeneration

from streamgen.pipelines.videoqa import VideoQAPipeline
from streamgen.pipelines.videoqa_memory import NAMES, Memory, named

from ..world.scene import Frames
from .questions import NOW, PAST, WORDINGS, Asked, Quiz
from .story import FPS, draw, story
from .text import ASK, SYSTEM, VIDEO

TRAINED, LONGER = (12, 24, 36, 48), 72  # frames
Answer = Callable[[Frames, list[str]], list[str]]


def exam(frames: int, stories: int, seed: int) -> Iterable[tuple[Frames, list[Asked]]]:
    """Stories on ground of their own, each with one question of every kind at its end."""
    rng = np.random.default_rng((seed, frames))
    for _ in range(stories):
        tale = story(frames, rng, seed=int(rng.integers(1 << 20, 1 << 30)))
        quiz = Quiz(tale)
        yield draw(tale), [quiz.ask(kind, frames - 1, rng) for kind in WORDINGS]


def stock(folder: Path, dtype: torch.dtype = torch.float32) -> Answer:
    """Answers of stock transformers: prompt, video tokens with the newline of stock videos, question."""
    net = LlavaOnevisionForConditionalGeneration.from_pretrained(folder, dtype=dtype).eval()
    tokens = AutoTokenizer.from_pretrained(folder)

    @torch.inference_mode()
    def answer(frames: Frames, questions: list[str]) -> list[str]:
        pixels = (torch.from_numpy(frames).permute(0, 3, 1, 2)[None].float() / 127.5 - 1).to(dtype)
        video = net.model.get_video_features(pixels, vision_feature_layer=-1)
        said = []
        for question in questions:
            after = tokens(ASK.format(question))["input_ids"]
            ids = [*tokens(SYSTEM)["input_ids"], *[VIDEO] * (4 * len(frames) + 1), *after]
            out = net.generate(
                input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                mm_encoder_outputs={"video": video}, max_new_tokens=4, do_sample=False,
            )  # fmt: skip
            said.append(tokens.decode(out[0, len(ids) :], skip_special_tokens=True).strip())
        return said

    return answer


@dataclass(frozen=True)
class Sitting:
    """One story that a session watched, and was asked about at its end."""

    said: list[str]
    firsts: list[float]  # CPU seconds to the first token of each answer: fork, question, token
    bytes_held: int  # keys and values of what was remembered, prompt included


def sit(pipe: VideoQAPipeline, memory: Memory | None, frames: Frames, questions: list[str]) -> Sitting:
    """Watch chunk by chunk with this memory (None: the pipeline's own), then answer each question."""
    said, firsts = [], []
    with pipe.open(memory=memory, steer=False) as session:
        for _ in session.watch((frame, t / FPS) for t, frame in enumerate(frames)):
            pass
        for question in questions:
            pieces, began = session.ask(question), time.process_time()
            first = next(pieces, "")
            firsts.append(time.process_time() - began)
            said.append(first + "".join(pieces))
        return Sitting(said, firsts, session.stats.bytes_held)


def streamed(folder: Path, memory: str, budget: int | None) -> Answer:
    """Answers of the product's pipeline, which watches chunk by chunk and keeps `budget` video tokens."""
    pipe = VideoQAPipeline.from_pretrained(folder, memory=named(memory, budget))
    return lambda frames, questions: sit(pipe, None, frames, questions).said


def shares(right: Mapping[str, list[bool]]) -> dict[str, float]:
    """Shares of right answers by kind; and means over all kinds, over those about now and the past."""
    by_kind = {kind: float(np.mean(right[kind])) for kind in WORDINGS}
    groups = {"now": NOW, "past": PAST, "all": tuple(WORDINGS)}
    return by_kind | {g: float(np.mean([by_kind[k] for k in kinds])) for g, kinds in groups.items()}


def score(answer: Answer, frames: int, stories: int, seed: int = 0) -> dict[str, float]:
    """`shares` of what is answered after stories of this length."""
    right: dict[str, list[bool]] = defaultdict(list)
    for pictures, asked in exam(frames, stories, seed):
        said = answer(pictures, [one.question for one in asked])
        for one, words in zip(asked, said, strict=True):
            right[one.kind].append(words == one.answer)
    return shares(right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("weights/tiny-vlm"))
    parser.add_argument("--stories", type=int, default=60)
    parser.add_argument("--frames", type=int, nargs="*", default=[*TRAINED, LONGER])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", choices=NAMES, help="answer with the product's pipeline")
    parser.add_argument("--budget", type=int, help="video tokens that it keeps")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen, budget = options.memory, options.budget
    answer = streamed(options.model, chosen, budget) if chosen else stock(options.model)
    for frames in options.frames:
        found = score(answer, frames, options.stories, options.seed)
        print(frames, json.dumps({k: round(v, 3) for k, v in found.items()}), flush=True)


if __name__ == "__main__":
    main()
