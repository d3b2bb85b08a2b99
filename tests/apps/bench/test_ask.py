"""`streamgen bench ask`: memories of one stream side by side, and what is said of the numbers."""

import json
from pathlib import Path

import pytest
import streamgen_apps.bench.ask_long as program

from tests.cli.conftest import Command, command  # noqa: F401 -- a fixture
from tests.pipelines.videoqa_models import checkpoint


def test_memories_are_measured_side_by_side(command: Command) -> None:  # noqa: F811
    done = command("bench", "ask", "--size", "tiny", "--beyond", "4", "--dtype", "fp32", "--json")
    assert done.code == 0, done.said
    [report] = json.loads(done.out)
    rows = {row["memory"]: row for row in report["rows"]}
    assert list(rows) == ["hermes", "window", "uniform", "full", "window, anew"]
    each, budget, chunks = report["chunk_tokens"], report["budget"], report["chunks"]
    assert chunks == budget // each + 4
    prompt = 5
    assert rows["full"]["tokens"] == prompt + chunks * each
    for name in ("hermes", "window", "uniform"):
        assert rows[name]["tokens"] <= prompt + budget
        assert rows[name]["bytes_held"] < rows["full"]["bytes_held"]
    assert rows["window, anew"]["tokens"] == prompt + budget
    assert all(row["chunk_s"] > 0 and row["chunk_early_s"] > 0 for row in rows.values())
    assert rows["full"]["first_token_s"] > 0 and rows["window, anew"]["first_token_s"] is None
    ratio = rows["full"]["first_token_s"] / rows["hermes"]["first_token_s"]
    assert report["first_token_against_full"] == ratio
    hermes = rows["hermes"]
    assert report["first_token_growth"] == hermes["first_token_s"] / hermes["first_token_early_s"]
    assert report["shape"]["question_tokens"] == 26 and report["shape"]["layers"] == 4
    assert "not in it" in report["included"]


def test_a_checkpoint_is_measured_with_its_own_budget(command: Command, tmp_path: Path) -> None:  # noqa: F811
    folder = str(checkpoint(tmp_path / "vlm"))
    done = command("bench", "ask", "-m", folder, "--beyond", "3", "--dtype", "fp32")
    assert done.code == 0, done.said
    assert b"budget 64" in done.out and b"Included:" in done.out
    assert done.out.count(b" -> ") == 9


def test_what_measures_nothing_is_refused(command: Command) -> None:  # noqa: F811
    wrongs = (
        ["--size", "huge"], ["--beyond", "0"], ["--budget", "0"], ["--dtype", "fp8"], ["--minutes", "0"],
        ["--minutes", "60", "--accuracy"], ["--minutes", "60", "--beyond", "20"],
    )  # fmt: skip
    for wrong in wrongs:
        assert command("bench", "ask", *wrong).code == 2


def test_a_long_time_is_measured_in_ten_parts(command: Command, tmp_path: Path) -> None:  # noqa: F811
    folder = str(checkpoint(tmp_path / "vlm"))
    done = command("bench", "ask", "--minutes", "2", "--budget", "32", "-m", folder, "--json")
    assert done.code == 0, done.said
    report = json.loads(done.out)
    assert (report["frames"], report["chunks"], report["budget"]) == (240, 120, 32)
    assert report["prefilled"] == [32, 32]
    for name in ("pages", "bytes_held"):
        least, most = report[name]
        assert 0 < least == most
    assert len(report["spans"]) == 10 and report["spans"][-1]["until_s"] == 120
    for span in report["spans"]:
        assert all(seconds > 0 for seconds in span.values())
    ratios = [span["chunk_s"] / span["young_chunk_s"] for span in report["spans"]]
    assert report["chunk_growth"] == program.growth(ratios)
    short = command("bench", "ask", "--minutes", "1", "-m", folder)
    assert short.code == 2 and "--minutes 3 or more" in " ".join(short.said.split())


def test_growth_is_that_of_a_line_through_the_spans() -> None:
    assert program.growth([2.0] * 10) == 0
    assert program.growth([10 + 0.5 * part for part in range(10)]) == pytest.approx(4.5 / 12.25)
