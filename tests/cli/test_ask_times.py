"""Times as people type them, which question is asked when, and lines of questions."""

import pytest

from streamgen.cli.ask_stdin import read_question
from streamgen.cli.ask_times import Asking, clock, parse_time, schedule
from streamgen.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("12.5", 12.5), ("190s", 190), ("3:10", 190), ("0:03:10", 190), ("1:00:00.25", 3600.25)],
)
def test_a_time_is_seconds_or_a_clock(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1", "3:60", "1:60:00", "1:2:3:4", "nan", "1e3", "3:"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match=r"0:03:10"):
        parse_time(text)


def test_a_clock_is_short_and_exact() -> None:
    assert [clock(seconds) for seconds in (0, 5.5, 59.999, 190, 3790.25)] == [
        "0:00",
        "0:05.5",
        "1:00",
        "3:10",
        "1:03:10.25",
    ]


def test_without_a_time_every_question_waits_for_the_end() -> None:
    assert schedule(["a", "b"], []) == (Asking("a", None), Asking("b", None))


def test_one_time_holds_for_every_question() -> None:
    assert schedule(["a", "b"], [3]) == (Asking("a", 3), Asking("b", 3))


def test_one_question_is_asked_at_each_time() -> None:
    assert schedule(["a"], [5, 1, 3]) == (Asking("a", 1), Asking("a", 3), Asking("a", 5))


def test_as_many_times_as_questions_are_pairs_in_the_order_given() -> None:
    assert schedule(["a", "b"], [5, 1]) == (Asking("b", 1), Asking("a", 5))


def test_other_numbers_of_times_do_not_pair() -> None:
    with pytest.raises(UsageError, match="3 questions and 2 times do not pair"):
        schedule(["a", "b", "c"], [1, 2])


def test_a_line_is_a_question_or_json_with_its_time() -> None:
    assert read_question("  who came in?\n") == Asking("who came in?", None)
    assert read_question('{"question": "who?", "at": "3:10"}') == Asking("who?", 190)
    assert read_question('{"question": "who?", "at": 2}') == Asking("who?", 2)


@pytest.mark.parametrize(
    "line", ['{"question": ""}', '{"q": "who?"}', "{who?", '{"question": "a", "at": "x"}']
)
def test_a_line_that_is_not_understood_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        read_question(line)
