"""Stories packed with many questions each: every question sees the stream up to its time, and itself.

One pass over a stream serves all its questions. Shapes: B stories, T frames, N tokens, Q questions in all.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from .model import LIMIT, PER_FRAME
from .questions import Asked, Quiz
from .reader import labels
from .story import draw_fast, story
from .text import ASK, END, PAD, SYSTEM, VIDEO


@dataclass(frozen=True)
class Batch:
    frames: Tensor  # uint8 [B, T, 64, 64, 3]
    ids: Tensor  # [B, N]
    positions: Tensor  # [B, N]
    mask: Tensor  # bool [B, N, N]
    place: Tensor  # [Q, 2]: story, and the token after which the answer is due
    answers: Tensor  # [Q]
    kinds: list[str]  # Q
    times: Tensor  # [Q]
    shown: Tensor  # [B, T, labels], what each frame shows: see `labels`
    start: int  # where the video begins


@dataclass(frozen=True)
class Plan:
    """A phase of the curriculum."""

    stories: int
    frames: int
    room: int  # tokens for questions, for each story
    kinds: tuple[str, ...]
    forget: float = 0.0  # share of stories whose old tokens are thinned out
    stretch: float = 0.0  # share of stories with gaps in their positions


class Packer:
    def __init__(self, tokens: PreTrainedTokenizerBase) -> None:
        self.tokens = tokens
        self.system = tokens(SYSTEM)["input_ids"]
        self.known: dict[str, list[int]] = {}

    def _ids(self, text: str) -> list[int]:
        if text not in self.known:
            self.known[text] = self.tokens(text)["input_ids"]
        return self.known[text]

    def questions(self, plan: Plan, quiz: Quiz, rng: np.random.Generator) -> list[Asked]:
        """Questions at random times that fill the room; half of them late."""
        asked, room = [], plan.room
        while True:
            low = 0 if rng.random() < 0.5 else 3 * plan.frames // 4
            kind = plan.kinds[rng.integers(len(plan.kinds))]
            asked.append(quiz.ask(kind, int(rng.integers(low, plan.frames)), rng))
            room -= len(self._ids(ASK.format(asked[-1].question))) + 3
            if room < 0:
                return asked[:-1]

    def batch(self, plan: Plan, rng: np.random.Generator) -> Batch:
        rows = [self._row(plan, rng) for _ in range(plan.stories)]
        seen, ids, positions, mask, places, asked = zip(*rows, strict=True)
        return Batch(
            torch.from_numpy(np.stack([frames for frames, _ in seen])),
            torch.from_numpy(np.stack(ids)),
            torch.from_numpy(np.stack(positions)),
            torch.from_numpy(np.stack(mask)),
            torch.tensor([(b, place) for b, row in enumerate(places) for place in row]),
            torch.tensor([self._ids(a.answer)[0] for row in asked for a in row]),
            [a.kind for row in asked for a in row],
            torch.tensor([a.time for row in asked for a in row]),
            torch.from_numpy(np.stack([shown for _, shown in seen])),
            len(self.system),
        )

    def _row(self, plan: Plan, rng: np.random.Generator) -> tuple:
        quiz = Quiz(story(plan.frames, rng))
        asked = self.questions(plan, quiz, rng)
        start, video = len(self.system), plan.frames * PER_FRAME
        total = start + video + plan.room
        ids, time = np.full(total, PAD), np.full(total, -1)
        block, positions = np.full(total, -1), np.zeros(total, np.int64)
        ids[: start + video] = self.system + [VIDEO] * video
        time[start : start + video] = np.arange(video) // PER_FRAME
        block[: start + video] = 0
        positions[: start + video] = self._positions(start, video, rng.random() < plan.stretch, rng)
        at, places = start + video, []
        for number, one in enumerate(asked):
            newline = [VIDEO] if rng.random() < 0.25 else []  # stock videos end with one, streams do not
            text = newline + self._ids(ASK.format(one.question)) + [*self._ids(one.answer), END]
            after = positions[start + (one.time + 1) * PER_FRAME - 1] + 1
            here = slice(at, at + len(text))
            ids[here], time[here], block[here] = text, one.time, number + 1
            positions[here] = after + np.arange(len(text))
            at += len(text)
            places.append(at - 3)
        kept = self._kept(plan, start, video, total, rng)
        seen = draw_fast(quiz.tale, rng), labels(quiz)
        return seen, ids, positions, _mask(time, block, *kept), places, asked

    @staticmethod
    def _positions(start: int, video: int, gaps: bool, rng: np.random.Generator) -> NDArray[np.int64]:
        """Positions of prompt and video: the prompt at zero; gaps like those that forgetting leaves."""
        positions = np.arange(start + video)
        if gaps:
            most = (LIMIT // 2 - video) if rng.random() < 0.3 else video
            jumps = rng.multinomial(int(rng.integers(most)), rng.dirichlet(np.full(video // PER_FRAME, 0.3)))
            positions[start:] += np.repeat(np.cumsum(jumps), PER_FRAME)
        return positions

    @staticmethod
    def _kept(
        plan: Plan, start: int, video: int, total: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.bool_], int]:
        """Which tokens stay when they are old, and after how many frames a token is old."""
        kept = np.ones(total, bool)
        if rng.random() < plan.forget:
            share = rng.uniform(0.15, 1)
            drawn = rng.random(video)
            kept[start : start + video] = (
                drawn if rng.random() < 0.7 else drawn.repeat(PER_FRAME)[:video]
            ) < share
        return kept, int(rng.integers(2, 13))


def _mask(
    time: NDArray[np.int64], block: NDArray[np.int64], kept: NDArray[np.bool_], old: int
) -> NDArray[np.bool_]:
    """Who sees whom, bool [N, N]: the stream causally, if kept or recent; each question itself."""
    n = len(time)
    causal = np.tri(n, dtype=bool)
    recent = time[:, None] - time[None, :] < old
    stream = (block == 0)[None, :] & (time[None, :] <= time[:, None]) & (kept[None, :] | recent)
    itself = (block[:, None] == block[None, :]) & (block[:, None] > 0)
    return causal & (stream | itself) | np.eye(n, dtype=bool)
