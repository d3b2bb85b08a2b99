"""Commands that list things: a table for people, lines or JSON for programs, sentences for mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streamgen.cli import models
from streamgen.cli.checksums import listing, mismatches, sha256
from streamgen.errors import StreamgenError, UsageError
from streamgen.models import registry
from tests.cli.conftest import Command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of one sound checkpoint and one on the hub."""
    place = tmp_path / "toy"
    (place / "vae").mkdir(parents=True)
    (place / "vae" / "config.json").write_text("{}")
    (place / "streamgen.json").write_text("{}")
    sums = {name: sha256(place / name) for name in listing(place)}
    entries = {
        "toy": {
            "pipeline": "video",
            "folder": "toy",
            "licence": "Apache-2.0",
            "summary": "a toy",
            "files": sums,
        },
        "real": {
            "pipeline": "video",
            "hub": "someone/real",
            "licence": "Apache-2.0",
            "summary": "a real one",
        },
    }
    (tmp_path / "registry.json").write_text(json.dumps(entries))
    monkeypatch.setattr(registry, "weights_folder", lambda: tmp_path)
    return place


def test_kernels_says_of_each_one_whether_it_runs_here_and_if_not_why(command: Command) -> None:
    reports = json.loads(command("kernels", "--json").out)
    by_name = {report["name"]: report for report in reports}
    assert by_name["reference"]["selftest"].startswith("passed")
    assert by_name["sdpa"]["usable"]
    assert all(report["usable"] or (report["reason"] and report["fix"]) for report in reports)


def test_a_listing_in_a_pipe_is_one_line_each(command: Command) -> None:
    lines = command("models", "list").out.decode().splitlines()
    assert lines[0].split("\t")[0] == "model"
    assert any(line.startswith("tiny-video\t") for line in lines)


def test_a_listing_whose_reader_left_ends_quietly() -> None:
    line = f"set -o pipefail; {sys.executable} -m streamgen.cli models list --json | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["kernels", "--device", "tpu"], "There is no device 'tpu'"),
        (["kernels", "--device", "cuda:99"], "sees"),
        (["models", "verify", "nobody"], "There is no model 'nobody'"),
        (["models", "convert", "nowhere.pt", "out"], "nothing at nowhere.pt"),
        (
            ["models", "convert", "nowhere.pt", "out", "--part", "lora"],
            "choose transformer, vae or text_encoder",
        ),
        (["models", "pull"], "Missing argument"),
        (["video", "a fox", "-m", "nobody/nothing"], "streamgen models pull nobody/nothing"),
        (["models", "destroy"], "No such command"),
        (["bench", "video", "--dtype", "int4"], "choose fp32, bf16 or both"),
        (["bench", "video", "--seconds", "0"], "no length to measure"),
        (["bench", "video", "--model", "huge"], "huge"),
        (["bench", "cache", "--dtype", "int4"], "choose fp32, bf16 or both"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_2(arguments: list[str], words: str, command: Command) -> None:
    done = command(*arguments)
    assert done.code == 2, done.said
    assert words in done.said and done.said.count("\n") == 1
    assert done.out == b""


def test_a_sound_checkpoint_is_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert models.verify(["toy"]) == 0
    assert capsys.readouterr().out == "toy: sound\n"


def test_a_changed_missing_or_added_file_is_named(folder: Path) -> None:
    (folder / "vae" / "config.json").write_text("{ }")
    (folder / "streamgen.json").unlink()
    (folder / "extra.bin").write_text("?")
    with pytest.raises(StreamgenError) as refusal:
        models.verify(["toy"])
    said = str(refusal.value)
    assert "vae/config.json has the SHA-256" in said
    assert "streamgen.json is missing" in said
    assert "extra.bin is not registered" in said


def test_what_is_only_on_the_hub_is_not_fetched_to_be_verified(folder: Path) -> None:
    with pytest.raises(UsageError, match="streamgen models pull real"):
        models.verify(["real"])


def test_a_list_says_what_is_here_and_what_is_on_the_hub(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models.list_models(as_json=True)
    toy, real = json.loads(capsys.readouterr().out)
    assert (toy["here"], toy["bytes"]) == ("bundled", 4)
    assert (real["here"], real["folder"]) == ("on the hub: someone/real", None)


def test_sums_are_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert sha256(tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert mismatches(tmp_path, {"empty": sha256(tmp_path / "empty")}) == []
