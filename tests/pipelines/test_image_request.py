"""Wishes that cannot be had: each is one sentence, said before anything is computed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamgen.errors import UsageError
from streamgen.kv.arena import Arena
from streamgen.models.var_classes import ClassNames
from streamgen.pipelines.image import ImagePipeline
from streamgen.pipelines.image_request import settle_seeds
from streamgen.pipelines.image_settings import PUBLISHED, ImageSettings, Sampling
from tests.pipelines.image_models import make_pipeline, make_var, make_vqvae, var_config, vq_config

REFUSED: list[tuple[dict[str, object], str]] = [
    ({"labels": "three"}, "no class 'three' among the 5.*some are zero"),
    ({"labels": "noughts"}, "near it are nought"),
    ({"labels": 6}, "no class 6: this model knows 0 to 4, and 5"),
    ({"labels": -2}, "no class -2"),
    ({"labels": 1.5}, "1.5 is no label"),
    ({"labels": "crane"}, r"'crane' is the name of class 3 \(crane\) and class 4"),
    ({"labels": []}, "No label was given"),
    ({"labels": 1, "cfg": -1.0}, "cfg=-1.0 is no guidance"),
    ({"labels": 1, "cfg": "4"}, "cfg='4' is no guidance"),
    ({"labels": 1, "cfg": float("nan")}, "cfg=nan is no guidance"),
    ({"labels": 1, "top_k": 17}, "top_k=17 is out of range; this model has 16 codes"),
    ({"labels": 1, "top_k": -1}, "top_k=-1"),
    ({"labels": 1, "top_k": 2.0}, "top_k=2.0 is out of range"),
    ({"labels": 1, "top_k": float("inf")}, "top_k=inf is out of range"),
    ({"labels": 1, "top_p": 1.5}, "top_p=1.5"),
    ({"labels": 1, "top_p": "0.5"}, "top_p='0.5' is out of range"),
    ({"labels": 1, "preset": "best"}, "no preset 'best'; choose one of demo, fid"),
    ({"labels": 1, "seeds": -3}, "-3 is no seed"),
    ({"labels": 1, "seeds": 2.5}, "2.5 is no seed"),
    ({"labels": 1, "seeds": "1"}, "'1' is no seed"),
    ({"labels": 1, "seeds": [None]}, "None is no seed"),
    ({"labels": [1, 2], "seeds": [1]}, "1 seeds were given for 2 images"),
    (
        {"labels": 1, "size": (32, 32)},
        r"32x32 was asked for and this model makes 16x16 in scales \[1, 2, 4\].*noise",
    ),
]


@pytest.mark.parametrize(("wish", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_a_wish_that_cannot_be_had_is_one_sentence(wish: dict[str, object], words: str) -> None:
    pipe = make_pipeline(memory=Arena())
    with pytest.raises(UsageError, match=words) as refusal:
        pipe.stream(**wish)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value) and str(refusal.value).endswith((".", "?"))
    assert pipe.memory.held == 0


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ImagePipeline(make_var(), make_vqvae(vq_config(32))), "knows 16 codes .* the VQ-VAE has 32"),
        (
            lambda: ImagePipeline(make_var(), make_vqvae(), ImageSettings(ClassNames(("a",)), PUBLISHED)),
            "1 classes",
        ),
        (lambda: make_pipeline(memory=Arena(device="meta")), "lies on meta and the model on cpu"),
        (lambda: var_config((1, 2, 2)), r"\[1, 2, 2\] is no list of scales"),
        (lambda: var_config((4,)), r"\[4\] is no list of scales"),
    ],
)
def test_parts_that_do_not_belong_together_are_one_sentence(build: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build()


@pytest.mark.parametrize(
    ("label", "number"),
    [(207, 207), ("207", 207), ("Golden Retriever", 207), ("American eagle", 22), ("volcano", 980)],
)
def test_imagenet_classes_go_by_number_name_and_synonym(label: int | str, number: int) -> None:
    assert ClassNames.imagenet().number(label) == number


@pytest.mark.parametrize("label", [None, -1, 1000, "no class", "No Class"])
def test_no_class_has_several_names(label: int | str | None) -> None:
    classes = ClassNames.imagenet()
    assert classes.number(label) == classes.no_class == 1000
    assert classes.name(classes.number(label)) == "no class"


def test_presets_are_those_of_the_published_pictures_and_scores() -> None:
    settings = ImageSettings.published(1000, 4096)
    demo, fid = settings.preset("demo"), settings.preset("fid")
    assert (demo.cfg, demo.top_k, demo.top_p, demo.more_smooth) == (4.0, 900, 0.95, False)
    assert (fid.cfg, fid.top_k, fid.top_p, fid.more_smooth) == (1.5, 900, 0.96, False)
    assert ImageSettings.published(10, 64).preset("demo").top_k == 64
    assert ImageSettings.published(10, 64).classes.name(7) == "7"


@pytest.mark.parametrize("seeds", [np.int64(3), np.array([3, 4]), [np.int32(3), 4]])
def test_numbers_of_numpy_count(seeds: Any) -> None:
    assert settle_seeds(seeds, 2) == (3, 4)
    assert Sampling(np.float32(1.5), np.int64(4), 0).check(16) == Sampling(1.5, 4, 0.0)
