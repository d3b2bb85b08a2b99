"""`streamgen text`: texts and JSON lines on stdout, everything else on stderr, and what is refused."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.models import lms
from tests.pipelines.texts import RAGGED, generated

PROMPTS = tuple(",".join(map(str, prompt)) for prompt in RAGGED)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(lms.saved(tmp_path_factory.mktemp("lm") / "model"))


def expected(prompt: int, tokens: int = 6) -> str:
    return " ".join(map(str, generated(lms.stock("qwen2"), RAGGED[prompt], tokens)[0]))


def test_one_text_is_written_as_it_comes_and_counted_on_stderr(command: Command, model: str) -> None:
    done = command("text", PROMPTS[0], "--ids", "-m", model, "-n", "6")
    assert (done.code, done.out.decode()) == (0, expected(0) + " \n")
    assert "1 text, 6 tokens" in done.said


def test_several_texts_are_written_whole_with_their_numbers(
    command: Command, model: str, tmp_path: Path
) -> None:
    (tmp_path / "prompts").write_text(f"{PROMPTS[1]}\n\n{PROMPTS[3]}\n")
    done = command("text", PROMPTS[0], "--lines", "prompts", "--ids", "-m", model, "-n", "6", "-q")
    lines = [f"[{number + 1}.1] {expected(prompt)} " for number, prompt in enumerate((0, 1, 3))]
    assert (done.code, sorted(done.out.decode().splitlines()), done.said) == (0, lines, "")


def test_json_lines_carry_every_piece_and_a_draft_says_what_was_accepted(
    command: Command, model: str
) -> None:
    done = command("text", PROMPTS[0], "--ids", "-m", model, "--draft", model, "-n", "6", "--json")
    pieces = [json.loads(line) for line in done.out.splitlines()]
    assert " ".join(str(token) for piece in pieces for token in piece["tokens"]) == expected(0)
    assert [piece.get("finished") for piece in pieces][-1] == "length" and len(pieces) < 6
    assert "100% of drafted tokens accepted" in done.said


def test_the_same_seed_writes_the_same_samples_and_a_drawn_one_is_said(command: Command, model: str) -> None:
    wish = ("text", PROMPTS[0], "--ids", "-m", model, "-n", "6", "-t", "1.0", "--samples", "2")
    first = command(*wish)
    seed = first.said.partition("seed ")[2].partition(",")[0]
    assert command(*wish, "--seed", seed).out == first.out and first.out.count(b"\n") == 2


def test_a_dry_run_says_what_it_would_take(command: Command, model: str) -> None:
    done = command("text", PROMPTS[2], "--ids", "-m", model, "--tokens", "160", "--dry-run", "-n", "6")
    told = json.loads(done.out)
    assert (told["prompts"], told["texts"], told["windows"]) == ([26], 1, [None] * 3)
    assert told["memory_bytes"]["cache"] == 160 * 3 * 2 * 2 * 8 * 4


def prompts_of(command: Command, *arguments: str) -> list[int]:
    """Tokens of each prompt."""
    done = command("text", *arguments, "--ids", "-n", "2", "--dry-run")
    assert done.code == 0, done.said
    return json.loads(done.out)["prompts"]


def test_a_pipe_that_is_named_as_a_file_is_read_once(command: Command, model: str) -> None:
    read, write = os.pipe()
    os.write(write, b"5,17,2\n")
    os.close(write)
    assert prompts_of(command, f"@/dev/fd/{read}", "-m", model) == [3]
    os.close(read)


def test_a_line_ends_at_a_line_feed_only(command: Command, model: str, tmp_path: Path) -> None:
    (tmp_path / "prompts").write_bytes("5\x0c17\u20282\r3\r\n\r\n7\x1c8\n".encode())
    assert prompts_of(command, "--lines", "prompts", "-m", model) == [4, 2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "A prompt is missing"),
        (("5", "--max-tokens", "0"), "--max-tokens 0"),
        (("words", "--ids"), "no list of token numbers"),
        (("words",), "no tokenizer"),
        (("5", "--ids", "--drawn"), "--draft MODEL"),
        (("5", "--ids", "--widths", "a"), "--widths a"),
        (("5", "--ids", "--samples", "2"), "temperature 0"),
        (("99", "--ids"), "Token 99 is unknown"),
        (("-", "--lines", "-", "--ids"), "read once"),
        (("@nowhere", "--ids"), "nowhere"),
        (("--lines", "nowhere", "--ids"), "nowhere"),
        (("5", "--ids", "--tokens", "32"), "may need"),
        (("5", "--ids", "--attention", "fast"), "no kernel 'fast'"),
        (
            ("5", "--ids", "--device", "cpu", "--attention", "flash"),
            "The kernel 'flash' was asked for and cannot serve",
        ),
        (
            ("5", "--ids", "--device", "cpu", "--attention", "flash", "--dry-run"),
            "The kernel 'flash' was asked for",
        ),
        (("5", "--ids", "--top-k", "-1"), "--top-k -1 "),
        (("5", "--ids", "--beams", "2", "--length-penalty", "nan"), "--length-penalty nan "),
        (("5,²", "--ids"), "no list of token numbers"),
        (("9" * 5000, "--ids"), "no list of token numbers"),
        (("5", "--ids", "--widths", "3,²"), "--widths 3,²"),
        (("5", "--ids", "--samples", "17", "-t", "1"), "--samples 17 is more than the 16"),
        (("5", "--ids", "--beams", "3", "--texts", "2"), "give fewer, or --texts 3"),
    ],
)
def test_a_wrong_wish_is_one_sentence_and_exit_code_two(
    command: Command, model: str, arguments: tuple[str, ...], says: str
) -> None:
    done = command("text", *arguments, "-m", model)
    assert (done.code, done.out) == (2, b"")
    assert says in done.said and done.said.count("\n") <= 1
