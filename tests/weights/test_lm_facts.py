"""The texts that tiny-lm learns from: what is asked was said, and only once; every word is known."""

import numpy as np
import pytest
import torch

from streamgen.models.doc_lora_chunks import document_ids
from weights.recipes.tiny_lm.data import GATHER, MATCH, STOP, batch, closed_book, story
from weights.recipes.tiny_lm.facts import NAMES, RELATIONS, document
from weights.recipes.tiny_lm.model import SIZES, model
from weights.recipes.tiny_lm.text import AFFIXES, DOC, END, PAD, SAY, Words, prompt, tokenizer


@pytest.mark.parametrize("count", [1, 3, 12, 24])
def test_every_question_about_a_document_has_one_answer_in_it(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(20):
        told = document(count, rng)
        assert 1 <= len(told.facts) <= count
        assert len({(fact.name, fact.relation) for fact in told.facts}) == len(told.facts)
        sentences = told.text.removesuffix(" .").split(" . ")
        for fact in told.facts:
            assert fact.value in RELATIONS[fact.relation].values
            ways = {way.format(fact.name, fact.value) for way in RELATIONS[fact.relation].said}
            assert sum(sentence in ways for sentence in sentences) == 1


def test_the_tokenizer_knows_every_word_and_agrees_with_the_recipe() -> None:
    rng, words, stock = np.random.default_rng(0), Words(), tokenizer()
    for _ in range(50):
        told = document(8, rng)
        question = told.facts[0].asked(rng)
        ids = [*words.told(told.text), *words.asked(question)]
        assert stock(prompt(told.text, question))["input_ids"] == ids
        assert stock.decode(ids) == prompt(told.text, question)
        assert document_ids(stock, told.text, AFFIXES) == words.told(told.text)
    assert len(stock) == len(words) == len(set(stock.get_vocab().values()))


def test_answers_weigh_most_then_their_ends_and_padding_nothing() -> None:
    words = Words()
    data = batch(words, 6, 10, 3, np.random.default_rng(0), blind=2)
    following = torch.cat([data.ids[:, 1:], torch.full((6, 1), PAD)], 1)
    say = data.ids == SAY
    assert not data.weights[following == PAD].any()
    assert (data.weights[say] == 1).all()
    after = torch.cat([torch.zeros(6, 1, dtype=torch.bool), say[:, :-1]], 1)
    assert (following[after] == END).all() and torch.allclose(data.weights[after], torch.tensor(STOP))


def test_answers_count_where_the_document_was_told() -> None:
    data = batch(Words(), 6, 10, 3, np.random.default_rng(0), blind=2)
    assert int(data.answer.sum()) == len(data.relations) == 4 * 3
    assert torch.equal(data.answer[:4], data.ids[:4] == SAY) and not data.answer[4:].any()
    assert not (data.ids[4:] == DOC).any() and not (data.looks[:, 0] >= 4).any()


def test_looks_lead_from_a_question_to_the_sentence_with_its_answer() -> None:
    rng, words = np.random.default_rng(3), Words()
    names = {words.ids[name] for name in NAMES}
    for _ in range(20):
        told = story(document(6, rng), words, 4, rng)
        gathered = {(head, here): there for job, head, here, there in told.looks if job == GATHER}
        found = {here: there for job, _, here, there in told.looks if job == MATCH}
        assert [told.row[say] for say in found] == [SAY] * 4
        for say, end in found.items():
            assert told.row[end] == words.ids["."]
            name, value = told.row[gathered[0, end]], told.row[gathered[1, end]]
            assert name in names and name == told.row[gathered[0, say]] and value == told.row[say + 1]


def test_closed_book_rows_hold_no_word_of_the_document_turn() -> None:
    turns, ids, answer = closed_book(Words(), 5, 6, 2, np.random.default_rng(0))
    assert len(turns) == len(ids) == 5
    assert all(turn[0] == AFFIXES.prefix[0] and turn[-1] == END for turn in turns)
    assert not (ids == AFFIXES.prefix[0]).any() and torch.equal(answer, ids == SAY)


def test_both_models_together_take_at_most_12_mb() -> None:
    nbytes = [sum(w.nbytes for w in model(kind, len(Words())).parameters()) for kind in SIZES]
    assert sum(nbytes) <= 12e6 and nbytes[1] < nbytes[0] / 10
