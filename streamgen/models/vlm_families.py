"""How LLaVA-OneVision, Qwen2.5-VL and Qwen3-VL turn frames into tokens of a stream.

Shapes: F frames, H height, W width, T tokens, G grids (a grid is a picture, or two in Qwen models).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.vlm import IntArray, Piece, StreamingVLM
from streamgen.models.vlm_pixels import Frames, Pixels, fitted, patched

EARLY = 1e-6  # of a position: sums of times are rounded
Encode = Callable[[str], list[int]]  # text -> token ids


class Vision(Protocol):
    """The eyes of a model."""

    def most_tokens(self, frames: int) -> int:
        """Tokens that so many frames can become at most."""
        ...

    def look(self, frames: Frames, times: Sequence[float]) -> Piece:
        """Frames uint8 [F, H, W, 3], watched at these seconds, as new tokens of the stream."""
        ...


class LlavaVision:
    """Every frame has the same number of tokens; no token stands between or after frames, as in ReKV."""

    def __init__(self, vlm: StreamingVLM, pixels: Pixels) -> None:
        self.vlm = vlm
        self.pixels = pixels
        side: int = vlm.model.config.vision_config.image_size
        self.size = (side, side)
        if pixels.size not in (None, self.size):
            raise UsageError(
                f"The preprocessor makes pictures of {pixels.size[1]}x{pixels.size[0]} and the vision tower "
                f"takes {side}x{side}; take both from one checkpoint."
            )
        pooled = -(-(side // vlm.model.config.vision_config.patch_size) // 2)
        self.frame_tokens = pooled * pooled

    def most_tokens(self, frames: int) -> int:
        return frames * self.frame_tokens

    @torch.no_grad()
    def look(self, frames: Frames, times: Sequence[float]) -> Piece:
        pixels = self.pixels.prepared(frames, self.size, self.vlm.device).to(self.vlm.dtype)
        return self.piece(self.features(pixels))

    @torch.no_grad()
    def features(self, pixels: Tensor) -> Tensor:
        """Pixels [F, 3, H, W] -> features [F, tokens, dim]; the stock newline after a video is left out."""
        seen = self.vlm.model.model.get_video_features(pixels[None], return_dict=True).pooler_output
        return seen[0, :-1].unflatten(0, (len(pixels), -1))

    def piece(self, features: Tensor) -> Piece:
        """Features [F, tokens, dim] as tokens of the stream."""
        count, each, _ = features.shape
        places = np.arange(count * each, dtype=np.int64)
        return Piece(features.flatten(0, 1)[None], places, places // each)


class QwenVision:
    """Frames of any size, two by two in a grid of merged patches, with positions on three axes."""

    def __init__(self, vlm: StreamingVLM, pixels: Pixels, frame_tokens: int | None, encode: Encode) -> None:
        if frame_tokens is None:
            raise UsageError(
                "Qwen models see frames of any size; say how many tokens two frames may take at most: "
                'add "frame_tokens" (256, say) to streamgen.json.'
            )
        config = vlm.model.config.vision_config
        self.vlm, self.pixels, self.encode = vlm, pixels, encode
        self.frame_tokens = frame_tokens
        self.patch: int = config.patch_size
        self.merge: int = config.spatial_merge_size
        self.together: int = config.temporal_patch_size

    def most_tokens(self, frames: int) -> int:
        return -(-frames // self.together) * self.frame_tokens

    @torch.no_grad()
    def look(self, frames: Frames, times: Sequence[float]) -> Piece:
        size = fitted(frames.shape[1], frames.shape[2], self.patch * self.merge, self.frame_tokens)
        pixels = self.pixels.prepared(frames, size, self.vlm.device)
        patches, grid = patched(pixels, self.patch, self.merge, self.together)
        return self.piece(self.features(patches, grid), grid, times)

    def features(self, patches: Tensor, grid: Tensor) -> list[Tensor]:
        """Patches of one grid [1, 3] -> features [T, dim], and those of the deeper layers where there are."""
        seen = self.vlm.model.model.get_video_features(
            patches.to(self.vlm.dtype), video_grid_thw=grid, return_dict=True
        )
        return [seen.pooler_output[0]]

    def piece(self, features: list[Tensor], grid: Tensor, times: Sequence[float]) -> Piece:
        """Time goes by seconds (`tokens_per_second`), rows and columns count from where the piece begins."""
        steps, rows, columns = self._shape(grid)
        passed = np.asarray(times)[:: self.together] - times[0]
        time = (passed * self.vlm.model.config.vision_config.tokens_per_second + EARLY).astype(np.int64)
        places = grid_places(time, rows, columns)
        owners = np.repeat(np.arange(steps, dtype=np.int64), rows * columns)
        return Piece(features[0][None], places, owners)

    def _shape(self, grid: Tensor) -> tuple[int, int, int]:
        """Grids of a piece, and rows and columns of tokens in each."""
        steps, rows, columns = grid[0].tolist()
        return steps, rows // self.merge, columns // self.merge


class Qwen3Vision(QwenVision):
    """Each grid follows its time in words and stands between two marks; deeper features are added later."""

    def most_tokens(self, frames: int) -> int:
        marks = len(self.encode(f"<{10**5}.0 seconds>")) + 2
        return super().most_tokens(frames) + -(-frames // self.together) * marks

    def features(self, patches: Tensor, grid: Tensor) -> list[Tensor]:
        seen = self.vlm.model.model.get_video_features(
            patches.to(self.vlm.dtype), video_grid_thw=grid, return_dict=True
        )
        return [seen.pooler_output[0], *(feature[0] for feature in seen.deepstack_features)]

    def piece(self, features: list[Tensor], grid: Tensor, times: Sequence[float]) -> Piece:
        steps, rows, columns = self._shape(grid)
        config, each = self.vlm.model.config, rows * columns
        embeds, places, owners, start = [], [], [], 0
        lifts: list[list[Tensor]] = [[] for _ in features[1:]]
        for step in range(steps):
            pair = times[step * self.together : (step + 1) * self.together]
            before = [*self.encode(f"<{np.mean([pair[0], pair[-1]]):.1f} seconds>")]
            text = self.vlm.words([*before, config.vision_start_token_id, config.vision_end_token_id])
            rest = slice(step * each, (step + 1) * each)
            embeds += [text.embeds[0, :-1], features[0][rest], text.embeds[0, -1:]]
            places += [text.places[:-1] + start]
            start += text.tokens - 1
            places += [grid_places(np.zeros(1, dtype=np.int64), rows, columns) + start]
            start += max(rows, columns)
            places += [text.places[:1] + start]
            start += 1
            owners += [np.full(text.tokens + each, step, dtype=np.int64)]
            for lift, feature in zip(lifts, features[1:], strict=True):
                blank = torch.zeros_like(text.embeds[0])
                lift += [blank[:-1], feature[rest], blank[-1:]]
        deeper = tuple(torch.cat(lift)[None] for lift in lifts)
        return Piece(torch.cat(embeds)[None], np.concatenate(places), np.concatenate(owners), deeper)


def grid_places(time: IntArray, rows: int, columns: int) -> IntArray:
    """Positions [T, 3] of grids: their time, and the row and column of each token."""
    axes = np.meshgrid(time, np.arange(rows), np.arange(columns), indexing="ij")
    return np.stack([axis.reshape(-1) for axis in axes], axis=1).astype(np.int64)
