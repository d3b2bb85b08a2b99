"""Batches of documents with questions behind them.

Shapes: B stories, N tokens, padded at the end.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .facts import Document, Fact, document
from .text import END, PAD, Words, longest

IGNORE = -100
REST = 0.2  # weight of tokens that are no answers


@dataclass(frozen=True)
class Batch:
    """ids [B, N]; weights [B, N] of predicting the next token; answer bool [B, N]: where an answer is due."""

    ids: Tensor
    weights: Tensor
    answer: Tensor
    relations: list[str]  # of the answers, in reading order


def story(
    told: Document, words: Words, questions: int, rng: np.random.Generator
) -> tuple[list[int], list[Fact]]:
    """A document and some questions about it, as one row of tokens."""
    row, asked = words.told(told.text), []
    for index in rng.permutation(len(told.facts))[:questions]:
        fact = told.facts[index]
        row += [*words.asked(fact.asked(rng)), *words(fact.value), END]
        asked.append(fact)
    return row, asked


def batch(words: Words, rows: int, most: int, questions: int, rng: np.random.Generator) -> Batch:
    """Stories of one to `most` facts."""
    made = [story(document(int(rng.integers(1, most + 1)), rng), words, questions, rng) for _ in range(rows)]
    tokens = longest([row for row, _ in made])
    ids = torch.tensor([[*row, *[PAD] * (tokens - len(row))] for row, _ in made])
    answer = ids == words.ids["<say>"]
    following = torch.cat([ids[:, 1:], torch.full((rows, 1), PAD)], 1)
    ends = torch.cat([torch.zeros(rows, 1, dtype=torch.bool), answer[:, :-1]], 1)
    weights = torch.where(answer | ends, 1.0, REST) * (following != PAD)
    return Batch(ids, weights, answer, [fact.relation for _, asked in made for fact in asked])


def closed_book(
    words: Words, rows: int, most: int, questions: int, rng: np.random.Generator
) -> tuple[list[list[int]], Tensor, Tensor]:
    """Documents as turns, and questions about each in a row without it: ids and answer (bool) [B, N]."""
    documents = [document(int(rng.integers(1, most + 1)), rng) for _ in range(rows)]
    turns = [words.told(told.text) for told in documents]
    asked = [story(told, words, questions, rng)[0] for told in documents]
    bare = [row[len(turn) :] for row, turn in zip(asked, turns, strict=True)]
    tokens = longest(bare)
    ids = torch.tensor([[*row, *[PAD] * (tokens - len(row))] for row in bare])
    return turns, ids, ids == words.ids["<say>"]
