"""`streamgen bench ask --accuracy`: which memory is right how often, by the simulator's truth."""

import json
from pathlib import Path

import pytest
import streamgen_apps.bench.accuracy as program

from tests.cli.conftest import Command, command  # noqa: F401 -- a fixture

KINDS = ["where", "walk", "coat", "first", "before", "count", "night", "seen", "now", "past", "all"]
ACCURACY = ("bench", "ask", "--accuracy")


def test_every_memory_answers_the_same_questions(command: Command) -> None:  # noqa: F811
    done = command(*ACCURACY, "--stories", "2", "--frames", "24", "--json")
    assert done.code == 0, done.said
    [report] = json.loads(done.out)
    assert (report["model"], report["frames"], report["stream_tokens"]) == ("tiny-vlm", 24, 96)
    assert (report["stories"], report["questions"]) == (2, 16)
    rows = {(row["memory"], row["budget"]): row for row in report["rows"]}
    forgetful = [(name, budget) for budget in (24, 48) for name in ("hermes", "window", "uniform")]
    assert list(rows) == [*forgetful, ("full", 96)]
    for row in rows.values():
        assert list(row["shares"]) == KINDS and row["first_token_s"] > 0
        assert all(share in (0, 0.5, 1) for kind, share in row["shares"].items() if kind in KINDS[:7])
    full = rows["full", 96]
    assert full["shares"]["all"] > 0.7  # of 16 answers; the model's own test asks more
    for name, budget in forgetful:
        held, parts = rows[name, budget]["bytes_held"], full["bytes_held"] / (96 + 11)  # the prompt's 11
        assert held <= (budget + 11 + 1) * parts
    hermes = rows["hermes", 24]
    assert report["past_above_window"] == hermes["shares"]["past"] - rows["window", 24]["shares"]["past"]
    assert report["all_below_full"] == full["shares"]["all"] - hermes["shares"]["all"]


def test_one_budget_and_a_table(command: Command) -> None:  # noqa: F811
    done = command(*ACCURACY, "--stories", "1", "--frames", "16", "--budget", "20")
    assert done.code == 0, done.said
    assert b"16 frames of 64 tokens in all, 1 stories, 8 questions a row" in done.out
    lines = done.out.decode().splitlines()
    table = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("|")]
    assert [row[1:3] for row in table[2:]] == [
        ["hermes", "20"],
        ["window", "20"],
        ["uniform", "20"],
        ["full", "64"],
    ]
    assert len({len(row) for row in table}) == 1 and b"With 20 tokens hermes is " in done.out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--accuracy", "--stories", "0"], "measures nothing"),
        (["--accuracy", "--frames", "4"], "measures nothing"),
        (["--accuracy", "--frames", "16", "--budget", "64"], "holds all 64 of a story of 16 frames"),
        (["--accuracy", "--beyond", "20"], "--beyond has no meaning with --accuracy"),
        (["--stories", "50"], "--stories has no meaning without --accuracy"),
    ],
)
def test_what_measures_nothing_is_refused(command: Command, wrong: list[str], said: str) -> None:  # noqa: F811
    done = command("bench", "ask", *wrong)
    assert done.code == 2 and said in " ".join(done.said.split())


def test_where_the_recipes_are_not_it_says_how_to_get_them(
    command: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(program, "weights_folder", lambda: tmp_path)
    done = command(*ACCURACY)
    assert done.code == 2 and "pip install -e ." in " ".join(done.said.split())
