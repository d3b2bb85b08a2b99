"""Rotary positions of Wan for any start frame, and the waves that tell it the time.

Shapes: B streams, T tokens (frame, row, column in row-major order), H heads, D head dim.
The channels of a head are split in three: D - 4 * (D // 6) for time, 2 * (D // 6) each for rows and columns.
"""

from dataclasses import dataclass

import torch
from einops import rearrange, repeat
from torch import Tensor

THETA = 10000.0


@dataclass(frozen=True)
class Rope:
    """Cosines and sines [1, T, 1, D / 2] of the tokens of one chunk."""

    cos: Tensor
    sin: Tensor

    def turn(self, x: Tensor) -> Tensor:
        """x [B, T, H, D] at its positions, interleaved pairs, computed in fp32."""
        even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack((even * self.cos - odd * self.sin, even * self.sin + odd * self.cos), dim=-1)
        return turned.flatten(-2).type_as(x)


def axis_channels(head_dim: int) -> tuple[int, int, int]:
    """Channels that carry time, row and column."""
    space = 2 * (head_dim // 6)
    return head_dim - 2 * space, space, space


def axis_angles(positions: Tensor, channels: int) -> Tensor:
    """[n, channels / 2] angles in float64, always on the CPU: some devices have no float64."""
    ladder = torch.arange(0, channels, 2, dtype=torch.float64) / channels
    return torch.outer(positions.to(torch.float64), 1.0 / THETA**ladder)


def chunk_rope(head_dim: int, frames: int, rows: int, columns: int, start: int, device: torch.device) -> Rope:
    """The rope of `frames` frames from frame number `start`; no table, so no last frame."""
    time, row, column = axis_channels(head_dim)
    f = axis_angles(torch.arange(start, start + frames), time)
    r = axis_angles(torch.arange(rows), row)
    c = axis_angles(torch.arange(columns), column)
    angles = torch.cat(
        (
            repeat(f, "f d -> f r c d", r=rows, c=columns),
            repeat(r, "r d -> f r c d", f=frames, c=columns),
            repeat(c, "c d -> f r c d", f=frames, r=rows),
        ),
        dim=-1,
    )
    angles = rearrange(angles, "f r c d -> 1 (f r c) 1 d")
    return Rope(angles.cos().float().to(device), angles.sin().float().to(device))


def time_rope(head_dim: int, frames: float, device: torch.device) -> Rope:
    """The rope that moves any token by a number of frames: time channels turn, the others stay."""
    time, row, column = axis_channels(head_dim)
    still = torch.zeros(1, (row + column) // 2, dtype=torch.float64)
    angles = torch.cat((axis_angles(torch.tensor([frames], dtype=torch.float64), time), still), dim=-1)
    angles = angles[:, None, None]
    return Rope(angles.cos().float().to(device), angles.sin().float().to(device))


def time_waves(times: tuple[float, ...], channels: int, device: torch.device) -> Tensor:
    """[n, channels] cosines, then sines, of n times in [0, 1000], exact to the last bit of fp32."""
    half = channels // 2
    ladder = THETA ** -(torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.tensor(times, dtype=torch.float64), ladder)
    return torch.cat((angles.cos(), angles.sin()), dim=-1).float().to(device)
