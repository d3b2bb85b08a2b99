"""Editing: what is kept, what is painted anew, and what is refused."""

import numpy as np
import pytest
import torch
from PIL import Image

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.pipelines.image import ImagePipeline, Preview
from tests.pipelines.image_models import make_pipeline
from tests.pipelines.test_image import last


def given(pipe: ImagePipeline, seed: int = 0) -> np.ndarray:
    """A picture that the model itself has made, so that its tokens are not all alike."""
    picture: np.ndarray = last(pipe.stream("one", seeds=seed)).images[0]
    return picture


def right_half(pipe: ImagePipeline) -> np.ndarray:
    width, height = pipe.size
    mask = np.zeros((height, width), dtype=bool)
    mask[:, width // 2 :] = True
    return mask


def split(pipe: ImagePipeline, preview: Preview) -> list[torch.Tensor]:
    """Token maps [B, p, p] of the last scale, left half and right half."""
    side = pipe.model.config.patches[-1]
    tokens = preview.tokens.view(-1, side, side)
    return [tokens[:, :, : side // 2], tokens[:, :, side // 2 :]]


def test_known_tokens_stay_and_the_others_are_painted_anew() -> None:
    pipe = make_pipeline()
    picture = given(pipe)
    latent = pipe.vae.encode(
        torch.from_numpy(picture).permute(2, 0, 1)[None] / 127.5 - 1, pipe.model.config.patches
    )
    previews = list(pipe.edit(picture, right_half(pipe), "two", seeds=[1, 2, 3]))
    known = latent.tokens[-1].view(1, 4, 4)[:, :, :2].expand(3, -1, -1)
    kept, fresh = split(pipe, previews[-1])
    assert torch.equal(kept, known)
    assert not torch.equal(fresh[0], fresh[1])
    assert torch.equal(previews[0].tokens, latent.tokens[0].expand(3, -1)), (
        "the single token of scale 0 is kept"
    )
    assert previews[-1].labels == (2, 2, 2) and previews[-1].seeds == (1, 2, 3)


def test_an_edit_repeats_and_takes_a_class_or_none() -> None:
    pipe = make_pipeline()
    picture, mask = given(pipe), right_half(pipe)
    first, again = (last(pipe.edit(picture, mask, "two", seeds=4)).images for _ in range(2))
    assert (first == again).all()
    tokens = [
        last(pipe.edit(picture, mask, label, seeds=4, cfg=6.0)).tokens for label in ("two", "one", None)
    ]
    assert not torch.equal(tokens[0], tokens[1]) and not torch.equal(tokens[1], tokens[2])


def test_what_is_kept_follows_the_mask_at_every_scale() -> None:
    pipe = make_pipeline()
    picture, outside = given(pipe), ~right_half(pipe)  # out-painting: the left half is new
    previews = list(pipe.edit(picture, outside, "two", seeds=range(40)))
    varied = [len(preview.tokens.view(40, -1).unique(dim=0)) > 1 for preview in previews]
    assert varied == [False, True, True]
    tokens = previews[1].tokens.view(40, 2, 2)
    assert (tokens[:, :, 1] == tokens[:1, :, 1]).all() and (tokens[:, :, 0] != tokens[:1, :, 0]).any()


def test_pil_pictures_and_masks_mean_the_same_as_arrays() -> None:
    pipe = make_pipeline()
    picture, mask = given(pipe), right_half(pipe)
    arrays = last(pipe.edit(picture, mask, 1)).tokens
    white = Image.fromarray(mask.astype(np.uint8) * 255)
    assert torch.equal(arrays, last(pipe.edit(Image.fromarray(picture), white, 1)).tokens)


@pytest.mark.parametrize(
    ("picture", "mask", "words"),
    [
        (Image.new("RGB", (20, 16)), np.ones((16, 16), bool), "The picture is 20x16 .* 16x16; resize"),
        (Image.new("RGBA", (16, 16)), np.ones((16, 16), bool), r"mode RGBA .* convert\('RGB'\)"),
        (np.zeros((16, 16, 3), np.float32), np.ones((16, 16), bool), "ndarray of float32 .* is no picture"),
        (np.zeros((16, 16), np.uint8), np.ones((16, 16), bool), "is no picture"),
        ("picture.png", np.ones((16, 16), bool), "A str is no picture"),
        (Image.new("RGB", (16, 16)), np.ones((16, 12), bool), "The mask is 12x16 and the picture 16x16"),
        (Image.new("RGB", (16, 16)), np.ones((16, 16), np.float64), "is no mask"),
        (Image.new("RGB", (16, 16)), np.zeros((16, 16), bool), "paints nothing"),
        (Image.new("RGB", (16, 16)), np.ones((16, 16), bool), "keeps nothing"),
    ],
)
def test_a_picture_or_mask_that_does_not_fit_is_one_sentence(
    picture: object, mask: object, words: str
) -> None:
    pipe = make_pipeline(memory=Arena())
    with pytest.raises(UsageError, match=words):
        pipe.edit(picture, mask, "one")
    assert pipe.memory.held == 0
