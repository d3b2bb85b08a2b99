"""A wish for a video, checked and settled before anything is computed.

Shapes: C latent channels, F latent frames, h and w latent size. Sizes are (width, height) in pixels.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageOps
from torch import Tensor

from streamgen.errors import StreamgenWarning, UsageError
from streamgen.pipelines.settings import VideoSettings

PromptAt = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class VideoRequest:
    """Everything one stream is made from; the same request gives the same frames."""

    prompts: tuple[tuple[int, str], ...]  # (pixel frame from which it counts, text), the first at 0
    frames: int | None  # None never ends
    seed: int
    size: tuple[int, int]
    steps: tuple[float, ...]
    window: int | None
    sink: int
    image: Image.Image | None  # of the size above
    latents: Tensor | None  # [1, C, F, h, w]

    def prompt(self, frame: int) -> str:
        """The text that counts for a chunk that begins at this pixel frame."""
        return [text for start, text in self.prompts if start <= frame][-1]


def settle_frames(frames: int | None, seconds: float | None, fps: float) -> int | None:
    """The number of frames, None for a stream that never ends."""
    if frames is not None and seconds is not None:
        raise UsageError(f"frames={frames} and seconds={seconds:g} both say how long; give one of them.")
    if seconds is not None:
        if not 0 < seconds < float("inf"):
            raise UsageError(f"seconds={seconds:g} is no length; give more than 0, or nothing for no end.")
        return max(1, round(seconds * fps))
    if frames is not None and frames < 1:
        raise UsageError(f"frames={frames} is no length; give at least 1, or None for no end.")
    return frames


def settle_prompts(prompt: str, prompt_at: PromptAt, fps: float) -> tuple[tuple[int, str], ...]:
    """Prompts with the frames from which they count, in order."""
    later = sorted(((round(seconds * fps), text) for seconds, text in prompt_at), key=lambda entry: entry[0])
    prompts = [(0, prompt), *later]
    starts = [start for start, _ in prompts]
    if min(starts) < 0 or len(set(starts)) < len(starts):
        raise UsageError(
            f"Prompts count from frames {starts}; give each a time of its own, after that of the first, 0 s."
        )
    return tuple(prompts)


def settle_size(size: tuple[int, int], multiple: tuple[int, int]) -> tuple[int, int]:
    """The nearest size whose width and height are multiples of what the model works in, at least one each."""
    width, height = (max(1, round(asked / unit)) * unit for asked, unit in zip(size, multiple, strict=True))
    if (width, height) != tuple(size):
        warnings.warn(
            f"{size[0]}x{size[1]} became {width}x{height}: the nearest width that {multiple[0]} divides and "
            f"the nearest height that {multiple[1]} divides.",
            StreamgenWarning,
            stacklevel=3,
        )
    return width, height


def settle_memory(
    settings: VideoSettings, window: int | None, sink: int | None, endless: bool
) -> tuple[int | None, int]:
    """Latent frames that are remembered: the last ones, and the first ones for ever."""
    window = settings.window if window is None else window
    sink = settings.sink if sink is None else sink
    if window is not None and window < settings.chunk:
        raise UsageError(
            f"A window of {window} latent frames cannot hold the {settings.chunk} that are made at a time; "
            f"give at least {settings.chunk}."
        )
    if sink < 0:
        raise UsageError(f"A sink of {sink} frames cannot be kept; give 0 for none.")
    if window is None and endless:
        raise UsageError(
            "A stream without end needs a window, or its memory grows; give window, frames or seconds."
        )
    return window, sink


def settle_image(image: Any, size: tuple[int, int]) -> Image.Image | None:
    """The start image scaled to cover the frame and cut at the middle."""
    if image is None:
        return None
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    return ImageOps.fit(picture.convert("RGB"), size, Image.Resampling.BICUBIC)


def settle_latents(latents: Tensor | None, channels: int, size: tuple[int, int]) -> Tensor | None:
    """Given latents as [1, C, F, h, w]."""
    if latents is None:
        return None
    latents = latents[None] if latents.ndim == 4 else latents
    width, height = size
    if latents.ndim != 5 or latents.shape[0] != 1 or latents.shape[1] != channels or not latents.shape[2]:
        raise UsageError(
            f"Latents of shape {list(latents.shape)} were given; give [1, {channels}, frames, h, w]."
        )
    if tuple(latents.shape[3:]) != (height, width):
        raise UsageError(
            f"Latents of {latents.shape[4]}x{latents.shape[3]} do not begin a stream of {width}x{height}; "
            "give the size they were made at."
        )
    return latents.float()
