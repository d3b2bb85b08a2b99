"""How these notebooks draw: one style, film strips, inline video, and maps of pages.

Shapes: T frames, H height, W width.
"""

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Video
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from streamgen.frames import Clip, enlarge, format_of, open_writer

INK, FAINT, PAPER = "#22303c", "#dfe5ea", "#ffffff"
BLUE, ORANGE, GREEN, PURPLE, RED, GOLD = "#2f6fb0", "#e07b39", "#3f9b6c", "#8a5fb5", "#c9433f", "#d9a514"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GOLD, RED)

plt.rcParams.update(
    {
        "figure.dpi": 100, "savefig.dpi": 100, "savefig.bbox": "tight", "font.size": 10, "text.color": INK,
        "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
        "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.prop_cycle": plt.cycler(color=COLOURS),
        "xtick.color": INK, "ytick.color": INK, "legend.frameon": False, "image.interpolation": "nearest",
        "figure.constrained_layout.use": True,
    }
)  # fmt: skip


def quiet() -> None:
    """No progress bars of loading, and no warning that there is no widget for them."""
    warnings.filterwarnings("ignore", message="IProgress not found")
    import transformers

    transformers.logging.disable_progress_bar()


quiet()


def play(frames: Any, fps: float = 8, scale: int = 4) -> Video:
    """Frames uint8 [T, H, W, 3] as a small inline mp4, written by streamgen's own writer."""
    frames = enlarge(np.ascontiguousarray(frames), scale)
    clip = Clip(frames.shape[2], frames.shape[1], Fraction(fps).limit_denominator())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        with open_writer(path, format_of(str(path)), clip) as writer:
            writer.write(frames)
        return Video(path.read_bytes(), embed=True, mimetype="video/mp4", html_attributes="controls loop")


def beside(*clips: Any, gap: int = 4) -> Any:
    """Clips of one length side by side, on white."""
    height, between = clips[0].shape[1], np.full((len(clips[0]), clips[0].shape[1], gap, 3), 255, np.uint8)
    assert all(clip.shape[1] == height for clip in clips), "clips beside one another are equally high"
    return np.concatenate([part for clip in clips for part in (clip, between)][:-1], axis=2)


def strip(rows: Mapping[str, Sequence[Any]], titles: Sequence[str] = (), size: float = 1.0) -> None:
    """Rows of pictures with a name before each row, and titles above the columns."""
    columns, names = max(map(len, rows.values())), 0.08 * max(map(len, rows))
    figure, axes = plt.subplots(
        len(rows), columns, figsize=(columns * size + names, len(rows) * size + 0.2), squeeze=False
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0, hspace=0)
    for row, (name, pictures) in zip(axes, rows.items(), strict=True):
        for axis, picture in zip(row, pictures, strict=False):
            axis.imshow(picture)
        for axis in row:
            bare(axis)
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8)
    for axis, title in zip(axes[0], titles, strict=False):
        axis.set_title(title, loc="center", fontsize=9)


def bare(axis: Axes) -> None:
    """No ticks, no frame: the picture alone."""
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def page_map(
    axis: Axes, pool: Any, caches: Mapping[str, Any], title: str = "", columns: int = 8, numbers: bool = True
) -> None:
    """Every page of a pool as a box of slots, each slot in the colours of the caches that read it.

    The number in a slot is the token's place in its stream; hatched slots are staged, not yet remembered.
    """
    size, total = pool.geometry.page_size, pool.pages.total
    for page in range(total):
        column, row = page % columns * (size + 0.8), -(page // columns) * 1.55
        edge = INK if pool.pages.refs(page) else FAINT
        box = FancyBboxPatch(
            (column - 0.12, row - 0.12), size + 0.24, 1.24, "round,pad=0,rounding_size=0.2",
            fc=PAPER, ec=edge, lw=1.8 if pool.pages.refs(page) > 1 else 0.8,
        )  # fmt: skip
        axis.add_patch(box)
        for slot in range(size):
            axis.add_patch(Rectangle((column + slot + 0.05, row + 0.05), 0.9, 0.9, fc="#f2f4f6", ec="none"))
    readers: dict[int, list[tuple[str, int, bool]]] = {}
    for (name, cache), colour in zip(caches.items(), COLOURS, strict=False):
        staged = [] if cache.opened is None else cache.opened.views[0].staged.tolist()
        for token, slot in enumerate([*cache.tables[0].slots.tolist(), *staged]):
            readers.setdefault(slot, []).append((colour, token, slot in staged))
        axis.plot([], [], "s", ms=9, color=colour, label=name)
    for slot, who in readers.items():
        page, offset = divmod(slot, size)
        column, row = page % columns * (size + 0.8) + offset, -(page // columns) * 1.55
        height = 0.9 / len(who)
        for level, (colour, _, waits) in enumerate(who):
            corner = (column + 0.05, row + 0.95 - (level + 1) * height)
            style = {"fc": PAPER, "ec": colour, "hatch": "////"} if waits else {"fc": colour, "ec": "none"}
            axis.add_patch(Rectangle(corner, 0.9, height, lw=0.6, **style))
        if numbers:
            ink = INK if who[0][2] else PAPER
            axis.text(column + 0.5, row + 0.48, who[0][1], color=ink, size=8, ha="center", va="center")
    rows = -(-total // columns)
    axis.set(xlim=(-0.5, min(total, columns) * (size + 0.8)), ylim=(-(rows - 1) * 1.55 - 0.4, 1.5))
    axis.set(aspect="equal", title=title)
    bare(axis)
