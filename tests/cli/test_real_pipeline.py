"""The command over real pipelines: a tiny random checkpoint, and the bundled one where it is.

Shapes: T frames, H height, W width.
"""

import json
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from streamgen.kv.arena import Arena
from streamgen.models.registry import registry
from streamgen.pipelines.video import VideoPipeline
from tests.cli.conftest import Command
from tests.models import tiny

BUNDLED = registry()["tiny-video"].folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.folder(tmp_path_factory.mktemp("checkpoint"), time_scale=2)


def raw(command: Command, *arguments: str) -> np.ndarray:
    """Frames uint8 [T, 24, 32, 3] of a command that pipes them."""
    done = command("video", "a hero walks", *arguments, "-o", "-", "-f", "rawvideo", "--pix-fmt", "rgb24")
    assert done.code == 0, done.said
    return np.frombuffer(done.out, np.uint8).reshape(-1, 24, 32, 3)


def test_the_command_gives_the_frames_of_the_library(command: Command, folder: Path) -> None:
    frames = raw(
        command, "-m", str(folder), "--frames", "6", "--seed", "5", "--prompt-at", "0.4s:snow by night"
    )
    pipe = VideoPipeline.from_pretrained(folder)
    chunks = pipe.stream("a hero walks", frames=6, seed=5, prompt_at=[(0.4, "snow by night")])
    assert np.array_equal(frames, np.concatenate([chunk.frames for chunk in chunks]))


def test_options_reach_the_pipeline(command: Command, folder: Path) -> None:
    options = ["--steps", "1", "--window", "2", "--sink", "0", "--dtype", "bf16", "--attention", "segments"]
    frames = raw(command, "-m", str(folder), "--frames", "5", "--seed", "5", *options)
    pipe = VideoPipeline.from_pretrained(folder, dtype=torch.bfloat16, attention="segments")
    chunks = pipe.stream("a hero walks", frames=5, seed=5, steps=1, window=2, sink=0)
    assert np.array_equal(frames, np.concatenate([chunk.frames for chunk in chunks]))


def test_a_dry_run_refuses_what_the_run_would_refuse(command: Command, folder: Path) -> None:
    done = command("video", "a hero walks", "-m", str(folder), "--attention", "nope", "--dry-run")
    assert (done.code, done.out) == (2, b"")
    assert "no kernel 'nope'" in done.said


@pytest.mark.parametrize(
    "options", [["--frames", "9"], ["--frames", "0"], ["--window", "2", "--size", "64x48"]]
)
def test_a_dry_run_says_the_bytes_that_the_stream_then_holds(options, command: Command, folder: Path) -> None:
    done = command("video", "a hero walks", "-m", str(folder), *options, "--dry-run")
    plan = json.loads(done.out)
    arena = Arena()
    pipe = VideoPipeline.from_pretrained(folder, memory=arena)
    wish = pipe.request(
        "a hero walks",
        frames=plan["frames"],
        size=tuple(plan["size"]),
        window=plan["window"],
        sink=plan["sink"],
    )
    with pipe.open(wish) as session:
        session.step()
        session.step()
        assert plan["memory"]["cache"]["bytes"] == arena.held
        assert plan["memory"]["text"]["bytes"] == session.text.nbytes
        assert plan["memory"]["decoder"]["bytes"] == session.vae_state.nbytes
    weights = sum(tensor.nbytes for tensor in pipe.transformer.state_dict().values())
    assert plan["memory"]["transformer weights"]["bytes"] == weights


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--attention", "nope"], "There is no kernel 'nope'"),
        (["--attention", "flashinfer", "--device", "cpu"], "flashinfer"),
        (["--device", "cuda:99"], "--device cuda:99 is not there"),
        (["--frames", "3", "--window", "1", "--sink", "-1"], "--sink -1"),
        (["--steps", "999999"], "give at most 1000"),
    ],
)
def test_what_the_model_cannot_do_is_one_sentence_and_exit_2(
    options, words, command: Command, folder: Path
) -> None:
    done = command("video", "a hero walks", "-m", str(folder), *options, "-o", "hero.mp4")
    assert done.code == 2, done.said
    assert words in done.said and done.said.count("\n") == 1


def test_a_prompt_that_is_too_long_and_a_folder_that_is_no_checkpoint_are_refused(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    long = command("video", " ".join(["snow"] * 50), "-m", str(folder))
    assert long.code == 2 and "fewer words" in long.said
    (tmp_path / "empty").mkdir()
    empty = command("video", "a hero", "-m", "empty")
    assert empty.code == 2 and "streamgen.json" in empty.said


def test_words_that_the_model_does_not_know_are_said(command: Command, folder: Path) -> None:
    done = command("video", "a hero yodels", "-m", str(folder), "--frames", "2", "-o", "hero.mp4")
    assert done.code == 0
    assert "yodels" in done.said and done.said.count("\n") == 3


def test_bench_video_prints_the_split_cold_and_warm_beside_the_peak(command: Command, folder: Path) -> None:
    done = command("bench", "video", "-m", str(folder), "--seconds", "0.5", "--json")
    assert done.code == 0, done.said
    report = json.loads(done.out)
    assert [(run["dtype"], run["state"]) for run in report["runs"]] == [
        ("fp32", "cold"),
        ("fp32", "warm"),
        ("bf16", "cold"),
        ("bf16", "warm"),
    ]
    for run in report["runs"]:
        assert {"text", "dit", "cache", "vae", "encode", "other"} == set(run["stages_s"])
        assert sum(run["stages_s"].values()) == pytest.approx(run["wall_s"])
        assert 0 < run["of_peak"] < 1
    assert "not in it" in report["included"]


@pytest.mark.skipif(BUNDLED is None, reason="weights/tiny-video is not here")
def test_the_bundled_checkpoint_makes_four_seconds_from_cold(tmp_path: Path) -> None:
    asked = ["video", "a hero in a red coat walks east through snow", "--seconds", "4", "-o", "out.mp4"]
    program = [sys.executable, "-m", "streamgen.cli", *asked]
    subprocess.run(program, cwd=tmp_path, stdin=subprocess.DEVNULL, check=True, timeout=240)
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == round(4 * container.streams.video[0].average_rate)


@pytest.mark.skipif(BUNDLED is None, reason="weights/tiny-video is not here")
def test_the_bundled_checkpoints_are_as_registered(command: Command) -> None:
    done = command("models", "verify")
    assert done.code == 0, done.said
