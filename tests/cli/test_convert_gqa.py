"""`streamgen models convert --gqa G` writes a stock folder with fewer key heads."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from streamgen.models.gqa import to_grouped_query
from tests.cli.conftest import Command
from tests.models.doc_lora_models import language_model

IDS = torch.tensor([[5, 9, 2, 33]])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stock folder with a file beside the weights."""
    folder = tmp_path_factory.mktemp("source") / "model"
    language_model("qwen2").save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize("groups", [4, 2, 1])
@torch.no_grad()
def test_a_folder_is_converted_and_stock_code_reads_it(
    command: Command, source: Path, tmp_path: Path, groups: int
) -> None:
    done = command("models", "convert", str(source), "small", "--gqa", str(groups))
    assert done.code == 0 and done.out.decode().strip() == "small", done.said
    stock = AutoModelForCausalLM.from_pretrained(tmp_path / "small").eval()
    assert stock.config.num_key_value_heads == groups
    assert stock(IDS).logits.equal(to_grouped_query(language_model("qwen2"), groups)(IDS).logits)
    assert (tmp_path / "small" / "tokenizer.json").read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["small"]


def test_what_cannot_be_converted_is_refused_and_nothing_is_written(
    command: Command, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "config.json").write_text(json.dumps({"architectures": ["NoSuchModel"]}))
    for arguments, sentence in [
        ((str(source), "out"), "is a language model; --gqa G pools"),
        ((str(source), "out", "--gqa", "3"), "4 key heads cannot be pooled into 3; choose one of 1, 2, 4"),
        ((str(source), "out", "--gqa", "2", "--part", "vae"), "give one of them"),
        ((str(source / "config.json"), "out", "--gqa", "2"), "is no folder"),
        (("empty", "out", "--gqa", "2"), "has no config.json"),
        (("odd", "out", "--gqa", "2"), "names NoSuchModel as its class"),
        ((str(source), str(source), "--gqa", "2", "-y"), "written over itself"),
    ]:
        done = command("models", "convert", *arguments)
        assert done.code == 2 and sentence in done.said and done.said.count("\n") == 1, done.said
        assert not (tmp_path / "out").exists()
    assert (source / "model.safetensors").is_file()


def test_a_folder_that_is_there_is_kept_without_y(command: Command, source: Path, tmp_path: Path) -> None:
    assert command("models", "convert", str(source), "small", "--gqa", "2").code == 0
    again = command("models", "convert", str(source), "small", "--gqa", "1")
    assert again.code == 2 and "-y replaces it" in again.said
    assert json.loads((tmp_path / "small" / "config.json").read_text())["num_key_value_heads"] == 2
    assert command("models", "convert", str(source), "small", "--gqa", "1", "-y").code == 0
    assert json.loads((tmp_path / "small" / "config.json").read_text())["num_key_value_heads"] == 1
