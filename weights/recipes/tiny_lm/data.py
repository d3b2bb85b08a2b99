"""Batches of documents with questions behind them.

Shapes: B stories, N tokens, padded at the end.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .facts import Document, Fact, document
from .text import ASK, END, PAD, Words, longest

IGNORE = -100
REST = 0.02  # weight of tokens that are no answers: nobody can foresee a document, so they are mostly noise
STOP = 0.2  # weight of the end of an answer
GATHER, MATCH = 0, 1  # what a layer in the middle does, and the one after it


@dataclass(frozen=True)
class Batch:
    """ids [B, N]; weights [B, N] of predicting the next token; answer bool [B, N]: where an answer is due
    that the document tells."""

    ids: Tensor
    weights: Tensor
    answer: Tensor
    relations: list[str]  # of the answers, in reading order
    next: Tensor  # [B, N]: the token after each one
    looks: Tensor  # [n, 5]: row, GATHER or MATCH, head, and from where to where attention should go


@dataclass(frozen=True)
class Story:
    """A row of tokens, what is asked in it, and where whoever answers has to look.

    looks: (MATCH or GATHER, head, from, to). The end of a sentence gathers its name and its value, the end
    of a question its name; then it finds the sentence with the same name.
    """

    row: list[int]
    asked: list[Fact]
    looks: list[tuple[int, int, int, int]]


def story(told: Document, words: Words, questions: int, rng: np.random.Generator) -> Story:
    """A document and some questions about it; a fact may be asked again, so that no answer can be told from
    the others."""
    row = words.told(told.text)
    ends = [place for place, word in enumerate(row) if word == words.ids["."]][-len(told.facts) :]
    looks, asked = [], []
    for fact, end in zip(told.facts, ends, strict=True):
        looks += [(GATHER, 0, end, last(row, words.ids[fact.name], end))]
        looks += [(GATHER, 1, end, last(row, words.ids[fact.value], end))]
    for index in rng.integers(len(told.facts), size=questions):
        fact = told.facts[index]
        row += words.asked(fact.asked(rng))
        say = len(row) - 1
        looks += [(GATHER, 0, say, last(row, words.ids[fact.name], say)), (MATCH, 0, say, ends[index])]
        row += [*words(fact.value), END]
        asked.append(fact)
    return Story(row, asked, looks)


def last(row: list[int], word: int, before: int) -> int:
    """Where a word stands the last time before a place."""
    return before - 1 - row[:before][::-1].index(word)


def batch(
    words: Words,
    rows: int,
    most: int,
    questions: int,
    rng: np.random.Generator,
    least: int = 1,
    blind: int = 0,
) -> Batch:
    """Stories of `least` to `most` facts; the last `blind` rows ask without the document, to teach which
    words answer which questions."""
    counts = rng.integers(least, most + 1, size=rows).tolist()
    made = [story(document(count, rng), words, questions, rng) for count in counts]
    seen = made[: rows - blind]
    lines = [s.row for s in seen] + [s.row[s.row.index(ASK) :] for s in made[rows - blind :]]
    tokens = longest(lines)
    ids = torch.tensor([[*line, *[PAD] * (tokens - len(line))] for line in lines])
    answer = ids == words.ids["<say>"]
    following = torch.cat([ids[:, 1:], torch.full((rows, 1), PAD)], 1)
    ends = torch.cat([torch.zeros(rows, 1, dtype=torch.bool), answer[:, :-1]], 1)
    weights = torch.where(answer, 1.0, torch.where(ends, STOP, REST)) * (following != PAD)
    answer[rows - blind :] = False
    looks = torch.tensor([(number, *look) for number, s in enumerate(seen) for look in s.looks])
    return Batch(ids, weights, answer, [fact.relation for s in seen for fact in s.asked], following, looks)


def closed_book(
    words: Words, rows: int, most: int, questions: int, rng: np.random.Generator, least: int = 1
) -> tuple[list[list[int]], Tensor, Tensor]:
    """Documents as turns, and questions about each in a row without it: ids and answer (bool) [B, N]."""
    documents = [document(int(rng.integers(least, most + 1)), rng) for _ in range(rows)]
    turns = [words.told(told.text) for told in documents]
    asked = [story(told, words, questions, rng).row for told in documents]
    bare = [row[len(turn) :] for row, turn in zip(asked, turns, strict=True)]
    tokens = longest(bare)
    ids = torch.tensor([[*row, *[PAD] * (tokens - len(row))] for row in bare])
    return turns, ids, ids == words.ids["<say>"]
