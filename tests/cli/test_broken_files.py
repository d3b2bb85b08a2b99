"""A checkpoint with a file that cannot be read, or of another kind: the file or the kind is named."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

BROKEN = {"cut off": b'{"a": 1,', "no text": b"\xff\xfe\xff", "no object": b"[1]"}
COMMANDS = [
    ("plan", "model"),
    ("text", "a fox", "-m", "model"),
    ("text", "a fox", "--draft", "model"),
    ("video", "a fox", "-m", "model"),
    ("world", "-p", "a fox", "-m", "model"),
    ("image", "1", "-m", "model"),
    ("ask", "fox.mp4", "what?", "-m", "model"),
    ("bench", "world", "-m", "model"),
    ("bench", "ask", "--accuracy", "-m", "model"),
    ("bench", "ask", "--minutes", "1", "-m", "model"),
    ("models", "convert", "model", "out"),
    ("models", "convert", "model", "out", "--gqa", "1"),
]


def said_of(command: Command, arguments: tuple[str, ...]) -> str:
    done = command(*arguments)
    assert (done.code, done.out, done.said.count("\n")) == (2, b"", 1), done.said
    return done.said


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: " ".join(words))
def test_a_broken_file_is_named_by_every_command(
    command: Command, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_bytes(BROKEN["cut off"])
    assert "model/config.json is not JSON" in said_of(command, arguments)


@pytest.mark.parametrize("name", ["streamgen.json", "tokenizer.json", "vae/config.json"])
@pytest.mark.parametrize("how", BROKEN)
def test_every_file_that_a_model_is_built_by_is_looked_at(
    command: Command, tmp_path: Path, name: str, how: str
) -> None:
    path = tmp_path / "model" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(BROKEN[how])
    said = said_of(command, ("plan", "model"))
    assert f"model/{name} " in said and said.endswith("; mend it, or fetch the checkpoint again.\n")


def test_a_config_alone_is_named_too(command: Command, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(BROKEN["cut off"])
    assert "config.json is not JSON" in said_of(command, ("plan", "config.json"))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("tiny-vlm", "the model_type of its config.json is llava_onevision"),
        ("tiny-video", "it has no config.json"),
        ("other", "the model_type of its config.json is None"),
    ],
)
@pytest.mark.parametrize("option", ["--model", "--draft"])
def test_what_is_no_language_model_is_named_beside_those_that_are(
    command: Command, tmp_path: Path, option: str, model: str, why: str
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps({"hidden_size": 8}))
    said = said_of(command, ("text", "a fox", option, model))
    assert f"{model} is no plain language model: {why};" in said and "tiny-lm, tiny-lm-draft." in said
