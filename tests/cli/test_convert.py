"""`streamgen models convert` turns published weights into stock folders and accounts for every key."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from streamgen.models.loading import load_transformer
from tests.cli.conftest import Command
from tests.models import tiny


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file, wrapped and prefixed as training code leaves it."""
    model = tiny.transformer(num_attention_heads=1, attention_head_dim=128)
    path = tmp_path_factory.mktemp("published") / "model.pt"
    torch.save(
        {"generator_ema": {f"model.{name}": tensor for name, tensor in model.state_dict().items()}}, path
    )
    return path


def test_published_weights_become_a_stock_folder(command: Command, published: Path, tmp_path: Path) -> None:
    done = command("models", "convert", str(published), "checkpoint")
    assert done.code == 0, done.said
    assert done.out.decode().strip() == "checkpoint/transformer"
    model = load_transformer(tmp_path / "checkpoint" / "transformer", torch.float32)
    original = tiny.transformer(num_attention_heads=1, attention_head_dim=128).state_dict()
    assert all(torch.equal(tensor, original[name]) for name, tensor in model.state_dict().items())


def test_a_part_that_is_there_is_kept_without_y(command: Command, published: Path) -> None:
    assert command("models", "convert", str(published), "checkpoint").code == 0
    again = command("models", "convert", str(published), "checkpoint")
    assert again.code == 2 and "-y replaces it" in again.said
    assert command("models", "convert", str(published), "checkpoint", "-y").code == 0


def test_weights_of_something_else_are_refused_by_name(command: Command, tmp_path: Path) -> None:
    save_file({"something.else": torch.zeros(1)}, tmp_path / "other.safetensors")
    done = command("models", "convert", "other.safetensors", "checkpoint")
    assert done.code in (1, 2) and "something.else" in done.said
    assert done.said.count("\n") == 1
    assert not (tmp_path / "checkpoint").exists()
