"""Actions in a stock backbone: planes beside the latents, or an embedding that begins as nothing."""

from pathlib import Path

import pytest
import torch

from streamgen.models.actions import ActionEmbedding, action_planes, load_action_embedding
from streamgen.models.wan import CausalWan
from streamgen.models.wan_keys import WeightKeyError
from tests.models import tiny
from tests.pipelines.streams import advance, open_stream, prompt

DIM = 24


def test_an_untrained_embedding_changes_no_bit() -> None:
    acts = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    plain, acted = open_stream(3, 1), open_stream(3, 1)
    text = plain.model.text(prompt())
    acted.model = ActionEmbedding(2, DIM).bind(acted.model, acts)
    for index in range(3):
        assert torch.equal(advance(plain, text, index, 2), advance(acted, text, index, 2))


def test_a_trained_embedding_tells_each_frame_its_own_action() -> None:
    embedding = tiny.seeded(ActionEmbedding(2, DIM))
    model = CausalWan(tiny.transformer())
    acts = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    shift = embedding(acts[None])
    assert shift.shape == (1, 2, 6, DIM) and not torch.equal(shift[:, 0], shift[:, 1])
    plain, acted = open_stream(3, 1, model=model), open_stream(3, 1, model=model)
    acted.model = embedding.bind(model, acts)
    text = model.text(prompt())
    assert not torch.allclose(advance(plain, text, 0, 2), advance(acted, text, 0, 2))


def test_an_embedding_is_saved_and_loaded_strictly(tmp_path: Path) -> None:
    embedding = tiny.seeded(ActionEmbedding(3, DIM, hidden=8))
    embedding.save(tmp_path)
    again = load_action_embedding(tmp_path, 3, DIM, torch.float32)
    acts = torch.randn(1, 2, 3)
    assert torch.equal(embedding(acts), again(acts))
    with pytest.raises(WeightKeyError, match="other shapes"):
        load_action_embedding(tmp_path, 4, DIM, torch.float32)
    with pytest.raises(ValueError, match="add it"):
        load_action_embedding(tmp_path / "none", 3, DIM, torch.float32)


def test_planes_are_constant_over_a_frame_and_follow_the_coordinates() -> None:
    still = torch.arange(6.0).view(1, 2, 3)
    planes = action_planes(still, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), (2, 3))
    assert planes.shape == (3, 2, 2, 3)
    assert torch.equal(planes[0, 0], still[0]) and torch.equal(planes[0, 1], still[0])
    assert planes[1, :, 0, 0].tolist() == [0, 1] and planes[2, :, 1, 2].tolist() == [1, 0]
    assert action_planes(None, torch.zeros(1, 2), (2, 3)).shape == (2, 1, 2, 3)
