"""`streamgen image`: sheets, previews, edits, pipes, and what is refused."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Command
from tests.pipelines.image_models import write_checkpoint


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(write_checkpoint(tmp_path / "model"))


def opened(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def test_labels_become_a_sheet_and_the_seed_is_said(command: Command, model: str, tmp_path: Path) -> None:
    done = command("image", "one", "zero", "-m", model, "--seed", "7", "-o", "sheet.png")
    assert (done.code, done.out) == (0, b"")
    assert "sheet.png: 2 pictures, seed 7 to 8" in done.said
    assert opened(tmp_path / "sheet.png").shape == (16, 32, 3)


def test_the_same_seed_makes_the_same_sheet_and_a_png_says_how(
    command: Command, model: str, tmp_path: Path
) -> None:
    for name in ("a.png", "b.png"):
        assert command("image", "one", "-m", model, "--seed", "3", "-o", name, "-q").code == 0
    assert (opened(tmp_path / "a.png") == opened(tmp_path / "b.png")).all()
    told = json.loads(Image.open(tmp_path / "a.png").info["Comment"])
    assert (told["labels"], told["seeds"], told["sampling"]["cfg"]) == (["one"], [3], 3.0)


def test_several_seeds_are_a_row_for_each_label(command: Command, model: str, tmp_path: Path) -> None:
    arguments = (
        "image",
        "one",
        "none",
        "-c",
        "3",
        "-m",
        model,
        "--seed",
        "0",
        "--scale",
        "2",
        "-o",
        "sheet.png",
    )
    assert command(*arguments).code == 0
    sheet = opened(tmp_path / "sheet.png")
    assert sheet.shape == (64, 96, 3)
    assert command("image", "none", "-m", model, "--seed", "3", "--scale", "2", "-o", "alone.png").code == 0
    assert np.abs(opened(tmp_path / "alone.png").astype(int) - sheet[32:, :32]).max() <= 1


def test_previews_are_a_strip_or_an_animation(command: Command, model: str, tmp_path: Path) -> None:
    for name in ("strip.png", "moving.gif", "moving.webp"):
        arguments = ("image", "one", "two", "-m", model, "--seed", "1", "--preview-scales", "-o", name)
        assert command(*arguments).code == 0
    assert opened(tmp_path / "strip.png").shape == (32, 48, 3)
    for name in ("moving.gif", "moving.webp"):
        moving = Image.open(tmp_path / name)
        assert (moving.n_frames, moving.size) == (3, (32, 16))


def test_a_pipe_gets_a_png_and_nothing_else(command: Command, model: str) -> None:
    done = command("image", "one", "-m", model, "-o", "-")
    assert done.code == 0
    assert Image.open(io.BytesIO(done.out)).size == (16, 16)


def test_an_edit_paints_where_the_mask_is_white(command: Command, model: str, tmp_path: Path) -> None:
    Image.new("RGB", (16, 16), (200, 30, 30)).save(tmp_path / "given.png")
    mask = np.zeros((16, 16), np.uint8)
    mask[:, 8:] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    arguments = (
        "--edit",
        "given.png",
        "--mask",
        "mask.png",
        "-c",
        "2",
        "-m",
        model,
        "--seed",
        "4",
        "-o",
        "out.png",
    )
    assert command("image", "two", *arguments).code == 0
    assert opened(tmp_path / "out.png").shape == (16, 32, 3)


def test_a_rehearsal_prints_the_memory_and_makes_nothing(
    command: Command, model: str, tmp_path: Path
) -> None:
    done = command("image", "one", "-m", model, "--seed", "1", "--dry-run", "-o", "out.png")
    told = json.loads(done.out)
    assert told["memory_bytes"]["stored"] == 2 * 5 * 2 * 2 * 32 * 4
    assert not (tmp_path / "out.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "1"], "A label is missing"),
        (["nine"], "no class 'nine'"),
        (["one", "--cfg", "-1"], "--cfg -1"),
        (["one", "--top-k", "99"], "--top-k 99 is out of range; this model has 16 codes"),
        (["one", "--top-p", "2"], "--top-p 2"),
        (["one", "--preset", "best"], "no preset 'best'"),
        (["one", "--count", "0"], "--count 0"),
        (["one", "--scale", "0"], "--scale 0"),
        (["one", "--seed", "-1"], "--seed -1"),
        (["one", "--dtype", "int4"], "no dtype 'int4'"),
        (["one", "--device", "tpu"], "no device 'tpu'"),
        (["one", "--attention", "magic"], "no kernel 'magic'"),
        (["one", "-o", "out.doc"], "does not say its format"),
        (["one", "-o", "no/where.png"], "there is no folder"),
        (["one", "--edit", "given.png"], "--edit and --mask belong together"),
        (["one", "--mask", "given.png"], "--edit and --mask belong together"),
        (["one", "two", "--edit", "a.png", "--mask", "b.png"], "--edit takes one label"),
        (["one", "--edit", "a.png", "--mask", "b.png"], "The picture a.png cannot be read"),
        (["one", "--edit", "small.png", "--mask", "small.png"], "The picture is 8x8"),
        (["one", "--vae", "nowhere.pth"], "--vae nowhere.pth is not there"),
    ],
)
def test_what_cannot_be_had_is_one_sentence(
    arguments: list[str], words: str, command: Command, model: str, tmp_path: Path
) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "small.png")
    before = sorted(tmp_path.iterdir())
    done = command("image", *arguments, "-m", model)
    assert done.code == 2, done.said
    assert words in done.said and done.said.count("\n") == 1
    assert done.out == b"" and sorted(tmp_path.iterdir()) == before


def test_an_output_that_is_there_is_kept(command: Command, model: str, tmp_path: Path) -> None:
    (tmp_path / "out.png").write_text("mine")
    done = command("image", "one", "-m", model, "-o", "out.png")
    assert (done.code, (tmp_path / "out.png").read_text()) == (2, "mine")
    assert command("image", "one", "-m", model, "-o", "out.png", "-y").code == 0


def test_a_benchmark_of_pictures_prints_json(command: Command) -> None:
    done = command("bench", "image", "--size", "tiny", "--rounds", "1", "--dtype", "bf16", "--json")
    told = json.loads(done.out)
    [row] = told["results"]
    assert row["dtype"] == "bf16" and row["streamgen_s"] > 0 and 0 < row["first_share"] < 1
    assert command("bench", "image", "--size", "d99").code == 2
