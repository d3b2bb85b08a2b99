"""Names, extensions and `-` settle the format; anything else is a sentence."""

from pathlib import Path

import pytest

from streamgen.errors import UsageError
from streamgen.frames import FORMATS, format_of


@pytest.mark.parametrize(
    ("target", "asked", "name"),
    [
        ("fox.mp4", None, "mp4"),
        ("fox.MP4", None, "mp4"),
        ("fox.y4m", None, "y4m"),
        ("fox.rgb", None, "rawvideo"),
        ("fox.nut", None, "nut"),
        ("fox.mjpeg", None, "mjpeg"),
        ("frames/", None, "png"),
        ("-", None, "y4m"),
        ("-", "yuv4mpegpipe", "y4m"),
        ("-", "raw", "rawvideo"),
        ("fox.mp4", "nut", "nut"),
        ("anything", "png", "png"),
    ],
)
def test_an_output_means_one_format(target: str, asked: str | None, name: str) -> None:
    assert format_of(target, asked).name == name


def test_an_existing_folder_means_pngs(tmp_path: Path) -> None:
    assert format_of(str(tmp_path)).name == "png"


@pytest.mark.parametrize(
    ("target", "asked"), [("fox", None), ("fox.doc", None), ("fox.mp4", "gif9"), ("-", "png")]
)
def test_an_output_without_a_format_is_refused_with_the_choices(target: str, asked: str | None) -> None:
    with pytest.raises(UsageError, match=r"\.mp4|choose one of|give a folder"):
        format_of(target, asked)


def test_a_pixel_format_is_taken_or_refused_with_the_choices() -> None:
    assert FORMATS["rawvideo"].pix_fmt("yuv420p") == "yuv420p"
    with pytest.raises(UsageError, match="choose one of yuv420p"):
        FORMATS["mp4"].pix_fmt("rgb24")
