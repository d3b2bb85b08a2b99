"""Whatever is asked wrongly gets one sentence on stderr, nothing on stdout, and exit code 2."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command

WRONG = {
    "no prompt": (["video"], "A prompt is missing"),
    "an empty prompt": (["video", "  "], "is empty"),
    "a prompt file that is not there": (["video", "@nowhere.txt"], "nowhere.txt cannot be read"),
    "no command": (["film"], "No such command"),
    "an unknown option": (["video", "a fox", "--colour", "red"], "No such option"),
    "an option without its value": (["video", "a fox", "--seed"], "requires an argument"),
    "two prompts": (["video", "a fox", "a bear"], "unexpected extra argument"),
    "frames that are no number": (["video", "a fox", "--frames", "many"], "--frames"),
    "negative frames": (["video", "a fox", "--frames", "-3"], "--frames -3"),
    "no seconds": (["video", "a fox", "--seconds", "0"], "--seconds 0"),
    "endless seconds": (["video", "a fox", "--seconds", "inf"], "--seconds inf"),
    "seconds that are no number": (["video", "a fox", "--seconds", "nan"], "--seconds nan"),
    "two lengths": (["video", "a fox", "--frames", "8", "--seconds", "1"], "give one of them"),
    "a size without a height": (["video", "a fox", "--size", "64"], "not WIDTHxHEIGHT"),
    "a size of nothing": (["video", "a fox", "--size", "0x64"], "not WIDTHxHEIGHT"),
    "a size beyond memory": (["video", "a fox", "--size", "9999999x64"], "not WIDTHxHEIGHT"),
    "a negative size": (["video", "a fox", "--size", "-64x64"], "not WIDTHxHEIGHT"),
    "a negative seed": (["video", "a fox", "--seed", "-1"], "--seed -1"),
    "a seed beyond 64 bits": (["video", "a fox", "--seed", str(2**64)], "out of range"),
    "no steps": (["video", "a fox", "--steps", "0"], "--steps 0"),
    "no window": (["video", "a fox", "--window", "0"], "--window 0"),
    "a negative sink": (["video", "a fox", "--sink", "-1"], "--sink -1"),
    "an unknown dtype": (["video", "a fox", "--dtype", "int4"], "choose fp32 or bf16"),
    "an unknown device": (["video", "a fox", "--device", "tpu"], "choose cpu, cuda"),
    "an unknown model": (["video", "a fox", "--model", "huge"], "There is no model 'huge'"),
    "an output without a format": (["video", "a fox", "-o", "fox"], "does not say its format"),
    "an unknown extension": (["video", "a fox", "-o", "fox.doc"], "does not say its format"),
    "an unknown format": (["video", "a fox", "-o", "fox", "-f", "avi9"], "no output format 'avi9'"),
    "a pixel format that mp4 lacks": (["video", "a fox", "-o", "f.mp4", "--pix-fmt", "rgb24"], "rgb24"),
    "PNGs into a pipe": (["video", "a fox", "-o", "-", "-f", "png"], "cannot go to a pipe"),
    "no scale": (["video", "a fox", "--scale", "0"], "--scale 0"),
    "an output in no folder": (["video", "a fox", "-o", "no/where/fox.mp4"], "there is no folder"),
    "an output that is a folder": (["video", "a fox", "-o", ".", "-f", "mp4"], "is a folder"),
    "both -y and -n": (["video", "a fox", "-o", "fox.mp4", "-y", "-n"], "give one of them"),
    "statistics in no folder": (["video", "a fox", "--stats", "no/where.jsonl"], "statistics file"),
    "statistics into the video": (["video", "a fox", "-o", "f.mp4", "--stats", "f.mp4"], "both name f.mp4"),
    "two outputs on stdout": (["video", "a fox", "-o", "-", "--stats", "-"], "both want standard output"),
    "a prompt time without a time": (["video", "a fox", "--prompt-at", "rain"], "not SECONDS:WORDS"),
    "a prompt time without words": (["video", "a fox", "--prompt-at", "5s:"], "not SECONDS:WORDS"),
    "a prompt at the start": (["video", "a fox", "--prompt-at", "0s:rain"], "starts after 0 s"),
    "a prompt after the end": (["video", "a fox", "--prompt-at", "9s:rain"], "past the end"),
    "two prompts at a time": (
        ["video", "a fox", "--prompt-at", "1s:rain", "--prompt-at", "1:snow"],
        "names 1s twice",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_gets_one_sentence_and_exit_2(case: str, painted: Command) -> None:
    arguments, words = WRONG[case]
    done = painted(*arguments)
    said = done.said.strip()
    assert done.code == 2, said
    assert words in said
    assert said.startswith("streamgen: ") and said.endswith((".", "!", "?")) and "\n" not in said
    assert done.out == b""


def test_an_existing_file_is_kept_without_y_and_replaced_with_it(painted: Command, tmp_path: Path) -> None:
    (tmp_path / "fox.mp4").write_text("precious")
    refused = painted("video", "a fox", "-o", "fox.mp4")
    assert refused.code == 2 and "-y replaces it" in refused.said
    assert (tmp_path / "fox.mp4").read_text() == "precious"
    assert painted("video", "a fox", "-o", "fox.mp4", "-n").code == 2
    assert painted("video", "a fox", "-o", "fox.mp4", "-y").code == 0
    assert (tmp_path / "fox.mp4").read_bytes()[4:8] == b"ftyp"
