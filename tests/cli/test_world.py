"""`streamgen world` and `streamgen replay` over a tiny random world."""

import io
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import streamgen as sg
from streamgen.frames import description
from streamgen.pipelines.world import WorldPipeline
from tests.cli.conftest import Command, Done
from tests.pipelines import worlds

RAW = ("-o", "-", "-f", "rawvideo", "--pix-fmt", "rgb24")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return worlds.folder(tmp_path_factory.mktemp("world"), time_scale=2)


def frames(done: Done) -> np.ndarray:
    assert done.code == 0, done.said
    return np.frombuffer(done.out, np.uint8).reshape(-1, 24, 32, 3)


def test_the_command_gives_the_frames_of_the_library(command: Command, folder: Path) -> None:
    options = ["--actions", "w*2,d,none", "--seed", "5", "--prompt-at", "0.3s:sand by night"]
    made = frames(command("world", "-m", str(folder), "--prompt", "a hero walks", *options, *RAW))
    with WorldPipeline.from_pretrained(folder).start("a hero walks", seed=5) as session:
        expected = [session.step({"KeyW"}).frames, session.step({"KeyW"}).frames]
        session.set_prompt("sand by night")
        expected += [session.step({"KeyD"}).frames, session.step().frames]
    assert np.array_equal(made, np.concatenate(expected))


def test_a_recording_carries_its_log_and_replays_bit_for_bit(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    Image.new("RGB", (9, 9), (90, 60, 30)).save(tmp_path / "start.png")
    asked = ["world", "start.png", "-m", str(folder), "-p", "a hero walks", "--actions", "w,d*2"]
    done = command(*asked, "--seed", "3", "-o", "out", "-f", "png", "--stats", "stats.jsonl")
    assert done.code == 0, done.said
    pictures = [np.array(Image.open(path)) for path in sorted((tmp_path / "out").glob("*.png"))]
    log = json.loads((tmp_path / "out.json").read_text())
    assert log["seed"] == 3 and log["prompt"] == "a hero walks" and len(log["events"]) == 2
    again = frames(command("replay", "out.json", *RAW))
    assert np.array_equal(again, np.stack(pictures))
    lines = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert [line["chunk"] for line in lines] == [0, 1, 2, 3]
    assert all(line["seconds"]["input_to_frame"] > 0 for line in lines[1:])


def test_live_keys_come_as_json_lines_on_standard_input(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb") as player:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
        player.write(b'{"down": "KeyW"}\n{"prompt": "sand by night"}\n')
        player.flush()
        asked = ["world", "-m", str(folder), "-p", "a hero walks", "--actions", "-", "--pace", "file"]
        done = command(*asked, "--chunks", "4", "-o", "live", "-f", "png")
    assert done.code == 0, done.said
    assert "prompt 1 counts from chunk" in done.said
    events = json.loads((tmp_path / "live.json").read_text())["events"]
    assert any("KeyW" in event.get("actions", []) for event in events)
    assert sum(event.get("chunks", 0) for event in events) == 4


def test_a_pipe_that_ends_is_played_to_its_last_line(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"down": "KeyW"}\n')))
    asked = ["world", "-m", str(folder), "-p", "a hero walks", "--actions", "-"]
    assert len(frames(command(*asked, *RAW))) >= 1


def test_a_live_line_that_is_not_understood_ends_the_run_with_a_sentence(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
        os.write(write, b'{"down": "KeyFly"}\n')
        asked = ["world", "-m", str(folder), "-p", "a hero walks", "--actions", "-", "-o", "x.mp4"]
        done = command(*asked)
        os.close(write)
    assert done.code == 2 and "There is no key 'KeyFly'" in done.said


def test_a_live_line_of_other_bytes_ends_the_run_with_a_sentence(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xe9\n")))
    done = command("world", "-m", str(folder), "-p", "a hero walks", "--actions", "-", "-o", "x.mp4")
    assert (done.code, done.said) == (
        2,
        "streamgen: A line of actions on standard input is not UTF-8 text.\n",
    )


def test_a_named_kernel_that_cannot_serve_is_a_wrong_argument(command: Command, folder: Path) -> None:
    asked = ["world", "-m", str(folder), "-p", "a hero walks", "--chunks", "1", "-o", "x.mp4"]
    done = command(*asked, "--attention", "triton", "--device", "cpu")
    assert done.code == 2 and "The kernel 'triton' was asked for and cannot serve" in done.said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--actions", "q*3"], "does not obey KeyQ"),
        (["--actions", "jump"], "There is no key 'jump'"),
        (["--switch", "hard"], "choose one of none, last, window, cut"),
        (["--over", "3", "--switch", "cut"], "renews no memory"),
        (["--pace", "fast"], "choose one of live, smooth, file"),
        (["--chunks", "9", "--actions", "w*2"], "last 2 chunks"),
        (["nothing.png"], "cannot be read"),
        (["--window", "0"], "window"),
        (["--seed", "-1"], "--seed -1 is out of range"),
    ],
)
def test_what_cannot_be_played_is_one_sentence_and_exit_2(
    options: list[str], words: str, command: Command, folder: Path
) -> None:
    done = command("world", *options, "-m", str(folder), "-p", "a hero walks", "-o", "out.mp4")
    assert done.code == 2, done.said
    assert words in done.said and done.said.count("\n") == 1


def test_a_log_that_is_none_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text("{}")
    done = command("replay", "log.json")
    assert done.code == 2 and "no control log" in done.said


def test_bench_world_prints_what_everything_costs(command: Command, folder: Path) -> None:
    done = command("bench", "world", "-m", str(folder), "--chunks", "3", "--json")
    assert done.code == 0, done.said
    report = json.loads(done.out)
    assert report["switches"]["last"] == {**report["switches"]["last"], "forwards": 1, "tokens": 12}
    assert report["switches"]["window"]["tokens"] == 4 * 12
    assert report["fork_bytes"] == 0 and report["part_bytes"] > 0 and report["save_bytes"] > 0
    assert report["step_s"] > 0 and report["reencoding_step_s"] > 0 and "not in it" in report["included"]


def test_a_dry_run_tells_the_cache_that_a_world_really_takes(command: Command, folder: Path) -> None:
    done = command("world", "-m", str(folder), "-p", "a hero walks", "--dry-run", "--seed", "4")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["seed"] == 4 and told["dtype"] == "float32"
    pipe = sg.WorldPipeline.from_pretrained(folder)
    with pipe.start("a hero walks", undo=1):
        assert told["memory"]["cache"]["bytes"] == pipe.parts.video.arena.held
    weights = sum(p.numel() * 4 for p in pipe.parts.video.model.transformer.parameters())
    assert told["memory"]["transformer weights"]["bytes"] == weights


def test_a_recording_that_is_there_is_kept(command: Command, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there.mp4").write_bytes(b"mine")
    done = command("world", "-m", str(folder), "-p", "a hero walks", "-o", "there.mp4", "-n")
    assert done.code == 2 and "is there already" in done.said
    assert (tmp_path / "there.mp4").read_bytes() == b"mine"


def test_a_world_begins_from_an_opening_of_its_model(
    command: Command, folder: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = tmp_path_factory.mktemp("openings") / "world"
    shutil.copytree(folder, model)
    (model / "openings").mkdir()
    Image.new("RGB", (16, 16), (90, 60, 30)).save(model / "openings" / "dune.png")
    asked = ["-m", str(model), "-p", "a hero walks", "--chunks", "2", "--seed", "1", "-f", "png"]
    named = command("world", "dune", *asked, "-o", "named")
    given = command("world", str(model / "openings" / "dune.png"), *asked, "-o", "given")
    assert named.code == given.code == 0
    pictures = [sorted((tmp_path / name).glob("*.png")) for name in ("named", "given")]
    assert [a.read_bytes() for a in pictures[0]] == [b.read_bytes() for b in pictures[1]]
    assert list(sg.WorldPipeline.from_pretrained(model).openings) == ["dune"]
    done = command("world", "dunes", *asked, "-o", "none")
    assert done.code == 2 and "openings: dune" in done.said


def test_a_log_names_a_bundled_model_and_no_folder_of_this_machine(command: Command, tmp_path: Path) -> None:
    done = command("world", "-p", "a hero in snow", "--chunks", "1", "--seed", "1", "-o", "a.mp4")
    assert done.code == 0, done.said
    log = json.loads((tmp_path / "a.mp4.json").read_text())
    assert log["model"] == "tiny-world"
    assert (
        json.loads(description(tmp_path / "a.mp4")["comment"]).items() >= log.items()
    )  # it is in there, too
    assert "tiny-world" in done.said
