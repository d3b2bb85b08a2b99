"""Pixels come to the vision tower as transformers' own processors would bring them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import LlavaOnevisionImageProcessorPil, Qwen2VLImageProcessorPil

from streamgen.errors import UsageError
from streamgen.models.vlm_pixels import Pixels, fitted, patched

MEAN, DEVIATION = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)


def frame(height: int, width: int) -> np.ndarray:  # type: ignore[type-arg]
    """A smooth picture with some noise."""
    rows, columns = np.mgrid[0:height, 0:width]
    smooth = np.stack([rows * 3 % 200, columns * 2 % 180, (rows + columns) % 150], axis=2)
    return (smooth + np.random.default_rng(0).integers(0, 40, smooth.shape)).astype(np.uint8)


@pytest.mark.parametrize("size", [(28, 28), (14, 20), (60, 44)])
def test_frames_are_resized_as_pillow_resizes_them(size: tuple[int, int]) -> None:
    picture = frame(40, 52)
    mine = Pixels(None, (0.0,) * 3, (1.0,) * 3, 1.0).prepared(picture[None], size, "cpu")
    theirs = np.asarray(Image.fromarray(picture).resize((size[1], size[0]), Image.Resampling.BICUBIC))
    off = np.abs(mine[0].permute(1, 2, 0).numpy() - theirs.astype(np.float32))
    assert off.max() <= 2 and off.mean() < 0.3


def test_a_frame_of_the_right_size_is_only_scaled_and_normalised() -> None:
    picture = frame(28, 28)
    processor = LlavaOnevisionImageProcessorPil(
        size={"height": 28, "width": 28},
        image_mean=MEAN,
        image_std=DEVIATION,
        image_grid_pinpoints=[[28, 28]],
    )
    theirs = torch.as_tensor(np.asarray(processor(Image.fromarray(picture))["pixel_values"][0][0]))
    mine = Pixels(None, MEAN, DEVIATION).prepared(picture[None], (28, 28), "cpu")[0]
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_patches_lie_in_the_order_of_qwen_processors() -> None:
    picture = frame(56, 84)
    processor = Qwen2VLImageProcessorPil(
        patch_size=14,
        merge_size=2,
        temporal_patch_size=2,
        do_resize=False,
        image_mean=MEAN,
        image_std=DEVIATION,
    )
    theirs = processor(Image.fromarray(picture))
    pixels = Pixels(None, MEAN, DEVIATION).prepared(picture[None], (56, 84), "cpu")
    patches, grid = patched(pixels, 14, 2, 2)
    assert grid.tolist() == np.asarray(theirs["image_grid_thw"]).tolist()
    torch.testing.assert_close(
        patches, torch.as_tensor(np.asarray(theirs["pixel_values"])), atol=1e-5, rtol=1e-5
    )


def test_sizes_keep_the_shape_of_the_picture_as_far_as_patches_allow() -> None:
    assert fitted(720, 1280, 28, 256) == (336, 588)
    assert fitted(28, 56, 28, 256) == (28, 56)
    assert fitted(10, 10, 28, 256) == (28, 28)


def test_a_checkpoint_that_resizes_otherwise_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "preprocessor_config.json"
    file.write_text('{"image_mean": [0, 0, 0], "image_std": [1, 1, 1], "resample": 5}')
    with pytest.raises(UsageError, match="filter 5"):
        Pixels.load(tmp_path)


def test_the_file_for_videos_comes_first(tmp_path: Path) -> None:
    for name, mean in (("preprocessor_config.json", 0.1), ("video_preprocessor_config.json", 0.2)):
        (tmp_path / name).write_text(f'{{"image_mean": [{mean}, 0, 0], "image_std": [1, 1, 1]}}')
    assert Pixels.load(tmp_path).mean == (0.2, 0, 0)
